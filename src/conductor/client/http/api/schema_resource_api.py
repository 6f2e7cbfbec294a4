from conductor.client.http.api.generated_api import GeneratedApi, generated
from conductor.client.http.models.schema_def import SchemaDef


class SchemaResourceApi(GeneratedApi):
    """Schemas of inputs and outputs."""

    delete_schema_by_name = generated("DELETE", "/schema/{name}", "name")
    delete_schema_by_name_and_version = generated("DELETE", "/schema/{name}/{version}", "name, version")
    get_all_schemas = generated("GET", "/schema", returns=list[SchemaDef])
    get_schema_by_name_and_version = generated("GET", "/schema/{name}/{version}", "name, version", returns=SchemaDef)
    save = generated("POST", "/schema", "body, *, new_version")
