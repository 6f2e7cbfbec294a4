"""`/prompts`: prompts that a server keeps.

Under the names that conductor-python's generated class has; new programs take `conductor.client.orkes_clients`.
"""

from __future__ import annotations

from conductor.client.http.api.generated_api import GeneratedApi, generated
from conductor.client.http.models.prompt_template import PromptTemplate
from conductor.client.http.models.tag_object import TagObject


class PromptResourceApi(GeneratedApi):
    """`/prompts`: prompts that a server keeps. Each is one blocking call."""

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
