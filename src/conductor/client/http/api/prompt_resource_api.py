"""`/prompts`: prompts that a server keeps.

Under the names that conductor-python's generated class has; new programs take `conductor.client.orkes_clients`.
"""

from __future__ import annotations

from conductor.client.http.api.endpoint import GeneratedApi, endpoint
from conductor.client.http.models.prompt_template import PromptTemplate
from conductor.client.http.models.tag_object import TagObject


class PromptResourceApi(GeneratedApi):
    """`/prompts`: prompts that a server keeps. Each is one blocking call."""

    delete_message_template = endpoint("DELETE", "/prompts/{name}", "name")
    delete_tag_for_prompt_template = endpoint("DELETE", "/prompts/{name}/tags", "body", "name")
    get_message_template = endpoint("GET", "/prompts/{name}", "name", returns=PromptTemplate)
    get_message_templates = endpoint("GET", "/prompts", returns=list[PromptTemplate])
    get_tags_for_prompt_template = endpoint("GET", "/prompts/{name}/tags", "name", returns=list[TagObject])
    put_tag_for_prompt_template = endpoint("PUT", "/prompts/{name}/tags", "body", "name")
    save_message_template = endpoint(
        "POST", "/prompts/{name}", "body", "description", "name", query="models version autoIncrement", text=True
    )
    test_message_template = endpoint("POST", "/prompts/test", "body", returns=str)
