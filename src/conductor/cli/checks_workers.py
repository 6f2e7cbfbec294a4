"""The checks of `doctor` on workers: their definitions, schemas and domains, and conflicts between them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from conductor.cli.checks_machine import ABOUT_WORKER_VARIABLE
from conductor.cli.discovery import find_workers, list_unknown_variables
from conductor.cli.finding import Finding, broken, ok, warning
from conductor.cli.server_kind import describe_error, open_client
from conductor.cli.support import UserError
from conductor.client.automator.json_schema_generator import generate_json_schemas
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.option import ConfigurationError
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.async_rest import ConductorError, NotFoundException
from conductor.client.http.models.task_def import TaskDef
from conductor.client.metadata_client import AsyncMetadataClient
from conductor.client.schema_client import AsyncSchemaClient
from conductor.client.worker import registry
from conductor.client.worker.worker import Worker, get_code_options
from conductor.client.worker.worker_config import ResolvedConfig, resolve_worker_config

#: With a shorter response timeout, a short pause of the worker loses the task.
MIN_RESPONSE_TIMEOUT_S = 10


async def check_workers(modules: Sequence[str], configuration: Configuration) -> list[Finding]:
    """Compare the workers of these modules with the definitions on the server. Return the findings."""
    try:
        workers = find_workers(modules)
        pairs = [(one, resolve_worker_config(one.get_task_definition_name(), get_code_options(one))) for one in workers]
    except UserError as error:
        return [
            broken(
                "modules-not-usable", str(error), "Correct it; `conductor-worker run --traceback` shows the traceback."
            )
        ]
    except ConfigurationError as error:
        return [broken("option-not-allowed", str(error), "Correct the value.")]
    found = [ok(f"{len(workers)} workers: {', '.join(worker.get_task_definition_name() for worker in workers)}")]
    found += [
        warning("two-workers-for-one-task", line, "Rename one of them, or give it a domain.")
        for line in registry.describe_duplicates()
    ]
    found += [
        warning("variable-sets-nothing", line, "Correct its name.")
        for line in list_unknown_variables(workers)
        if ABOUT_WORKER_VARIABLE.match(line)
    ]
    undefined: list[str] = []
    async with open_client(configuration) as api:
        for worker, config in pairs:
            try:
                found += [finding async for finding in _compare(worker, config, api, undefined)]
            except ConductorError as error:
                problem = (
                    f"{worker.get_task_definition_name()} cannot be compared with the server: {describe_error(error)}"
                )
                return [*found, warning("definitions-not-shown", problem, "Correct the faults of the server first.")]
    return found + no_definitions(undefined)


async def _compare(
    worker: Worker, config: ResolvedConfig, api: AsyncApiClient, undefined: list[str]
) -> AsyncIterator[Finding]:
    """Yield the findings about a worker. If its task has no definition, append the task type to `undefined`."""
    name = worker.get_task_definition_name()
    for finding in await domain_without_tasks(name, config.domain or "", api):
        yield finding
    try:
        definition = await AsyncMetadataClient(api).get_task_def(name)
    except NotFoundException:
        if not config.register_task_def:
            undefined.append(name)
        return
    for finding in short_response_timeout(name, definition):
        yield finding
    for finding in await other_schema(worker, config, definition, api):
        yield finding


async def domain_without_tasks(name: str, domain: str, api: AsyncApiClient) -> list[Finding]:
    """Return a warning if tasks wait only in domains that the worker does not poll."""
    waiting = await api.call_for(dict[str, int], "GET", "/tasks/queue/all")
    queues = {queue.rpartition(":")[0]: size for queue, size in waiting.items() if queue.rpartition(":")[2] == name}
    elsewhere = [where or "no domain" for where, size in queues.items() if size and where != domain]
    if queues.get(domain) or not elsewhere:
        return []
    here = f"domain {domain}" if domain else "no domain"
    return [
        warning(
            "worker-domain",
            f"tasks of {name} wait in {', '.join(elsewhere)}, but the worker here polls in {here}",
            f"Give the worker their domain (CONDUCTOR_WORKER_{name.upper()}_DOMAIN), or change taskToDomain.",
        )
    ]


def no_definitions(names: Sequence[str]) -> list[Finding]:
    """Return a warning about the tasks without a definition, which get the server's default retries and timeouts."""
    if not names:
        return []
    return [
        warning(
            "definition-missing",
            f"the server has no definition of {', '.join(names)}: "
            f"{'this task gets' if len(names) == 1 else 'these tasks get'} the server's default retries and timeouts",
            "To change them, set retries in the decorator, such as @worker_task(..., retries=3), "
            "or pass register_task_def=True.",
        )
    ]


def short_response_timeout(name: str, definition: TaskDef) -> Iterator[Finding]:
    """Check for a response timeout that is so short that a pause of the worker loses the task."""
    seconds = definition.response_timeout_seconds
    if seconds and seconds < MIN_RESPONSE_TIMEOUT_S:
        yield warning(
            "response-timeout-short",
            f"responseTimeoutSeconds of task {name} is {seconds}: a worker that pauses that long loses the task",
            f"Make it {MIN_RESPONSE_TIMEOUT_S} or more; heartbeats extend it.",
        )


async def other_schema(
    worker: Worker, config: ResolvedConfig, definition: TaskDef, api: AsyncApiClient
) -> list[Finding]:
    """Return a warning if the input schema on the server is missing or differs from the worker's own schema."""
    link, function = definition.input_schema, worker.execute_function
    if link is None or not link.name or function is None:
        return []
    name = worker.get_task_definition_name()
    try:
        there: Any = (await AsyncSchemaClient(api).get_schema(link.name, link.version or 1)).data
    except NotFoundException:
        missing = f"the definition of task {name} names schema {link.name}, which the server does not have"
        return [warning("schema-missing", missing, "Register the schema, or let the worker register both.")]
    here = generate_json_schemas(function, name, config.strict_schema)["input"]
    if here is None or here == there:
        return []
    differ = sorted(set(_fields(here)) ^ set(_fields(there)))
    about = f" ({', '.join(differ[:3])})" if differ else ""
    return [
        warning(
            "schema-mismatch",
            f"the input schema of task {name} on the server differs from the worker's{about}",
            "Register it again: @worker_task(register_task_def=True, overwrite_task_def=True).",
        )
    ]


def _fields(schema: Any) -> list[str]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return list(properties) if isinstance(properties, dict) else []
