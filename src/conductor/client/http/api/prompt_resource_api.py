from conductor.client.http.api.generated_api import GeneratedApi, generated
from conductor.client.http.models.prompt_template import PromptTemplate
from conductor.client.http.models.tag_object import TagObject


class PromptResourceApi(GeneratedApi):
    """Prompts for language models."""

    delete_message_template = generated("DELETE", "/prompts/{name}", "name")
    delete_tag_for_prompt_template = generated("DELETE", "/prompts/{name}/tags", "body, name")
    get_message_template = generated("GET", "/prompts/{name}", "name", returns=PromptTemplate)
    get_message_templates = generated("GET", "/prompts", returns=list[PromptTemplate])
    get_tags_for_prompt_template = generated("GET", "/prompts/{name}/tags", "name", returns=list[TagObject])
    put_tag_for_prompt_template = generated("PUT", "/prompts/{name}/tags", "body, name")
    save_message_template = generated(
        "POST", "/prompts/{name}", "body, description, name, *, models, version, autoIncrement", as_text=True
    )
    test_message_template = generated("POST", "/prompts/test", "body", returns=str)
