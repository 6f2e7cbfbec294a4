"""The requests that the generated classes of conductor-python make, asked of whichever package is installed.

Printed as JSON: for every method that conductor-python has, the verb, the path, the query, and whether there is a body.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import warnings

MODULES = [
    "http.api.application_resource_api",
    "http.api.authorization_resource_api",
    "http.api.event_resource_api",
    "http.api.gateway_auth_resource_api",
    "http.api.group_resource_api",
    "http.api.integration_resource_api",
    "http.api.metadata_resource_api",
    "http.api.prompt_resource_api",
    "http.api.role_resource_api",
    "http.api.scheduler_resource_api",
    "http.api.schema_resource_api",
    "http.api.secret_resource_api",
    "http.api.task_resource_api",
    "http.api.token_resource_api",
    "http.api.user_resource_api",
    "http.api.workflow_bulk_resource_api",
    "http.api.workflow_resource_api",
    "orkes.api.tags_api",
]


def main() -> dict:
    return {f"{cls.__name__}.{name}": request_of(cls, name, method) for cls in classes() for name, method in of(cls)}


def classes():
    for module in MODULES:
        found = importlib.import_module(f"conductor.client.{module}")
        yield from (v for v in vars(found).values() if isinstance(v, type) and v.__module__ == found.__name__)


def of(cls):
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        if not name.startswith("_") and not name.endswith("_with_http_info") and name != "close":
            yield name, method


def request_of(cls, name, method):
    seen = []
    parameters = list(inspect.signature(method).parameters.values())[1:]
    required = [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    api = cls(watched(seen))
    more = {"type": "<type>", "id": "<id>"} if name == "check_permissions" else {}  # optional, and then missed
    getattr(api, name)(**{one: f"<{one}>" for one in required}, **more)
    return {"required": required, **seen[0]}


def watched(seen):
    """An ApiClient that notes what it is to send, in the way of the package that it comes from."""
    from conductor.client.configuration.configuration import Configuration
    from conductor.client.http.api_client import ApiClient

    client = ApiClient(Configuration("http://127.0.0.1:9"))
    if hasattr(client, "call_api"):

        def call_api(path, method, path_params=None, query_params=None, header_params=None, body=None, **_):
            for key, value in (path_params or {}).items():
                path = path.replace("{" + key + "}", str(value))
            note(seen, method, path, dict(query_params or ()), body)

        client.call_api = call_api
    else:
        from urllib.parse import unquote

        async def call_for(type_, method, path, *, query=None, body=None, **_):
            note(seen, method, unquote(path), {k: v for k, v in (query or {}).items() if v is not None}, body)
            return ""

        client.call_for = call_for
    return client


def note(seen, method, path, query, body):
    seen.append({"method": method, "path": path, "query": query, "body": body is not None})


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    json.dump(main(), sys.stdout)
