"""`conductor-worker workflow definitions`, `export`, `register` and `diff`: workflow definitions."""

from __future__ import annotations

import difflib
import importlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from conductor.cli.console import print_json, print_line, print_table, silence_logger
from conductor.cli.discovery import add_import_path, import_modules
from conductor.cli.stored_warnings import print_definition_warnings
from conductor.cli.support import (
    AsJson,
    Url,
    UserError,
    call_server,
    examples,
    find_web_ui,
    make_configuration,
    print_web_ui,
    unreachable_error,
)
from conductor.client.configuration.option import ConfigurationError
from conductor.client.http.async_api_client import DEFINITION_LOGGER, AsyncApiClient
from conductor.client.http.errors import ApiException, ConductorError, NotFoundException, TransportError
from conductor.client.http.models.save_schedule_request import SaveScheduleRequest
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.client.metadata_client import AsyncMetadataClient, MetadataClient
from conductor.client.scheduler_client import SchedulerClient
from conductor.client.worker import registry
from conductor.client.worker.worker import Worker, get_code_options
from conductor.client.worker.worker_config import resolve_worker_config

Modules = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE_OR_MODULE",
        help="Python files, modules or packages with module-level workflows, or JSON files.",
        show_default=False,
    ),
]
#: Fields that a server adds to a definition, and defaults that it fills in. `diff` ignores both.
_SERVERS_OWN = ("createTime", "updateTime", "createdBy", "updatedBy", "ownerApp")
_ASSUMED = {"version": 1, "schemaVersion": 2, "restartable": True, "timeoutPolicy": "ALERT_ONLY", "type": "SIMPLE"}
#: Fields whose keys and values the user chooses, so that nothing inside them is a default of the server.
_USERS_OWN = ("inputParameters", "outputParameters", "inputTemplate", "variables")


@examples("workflow definitions", "workflow definitions --json")
def definitions(url: Url = None, as_json: AsJson = False) -> None:
    """List the workflow definitions on a server, and warnings about them."""

    async def read(api: AsyncApiClient) -> tuple[list[WorkflowDef], str | None]:
        found = await AsyncMetadataClient(api).get_all_workflow_defs()
        return sorted(found, key=lambda one: (one.name, one.version or 1)), await find_web_ui(api, "/definitions")

    found, address = call_server(url, read)
    if as_json:
        print_json([one.to_dict() for one in found])
        return
    if found:
        rows = [[one.name, str(one.version or 1), str(len(one.tasks)), one.description or ""] for one in found]
        print_table(["workflow", "version", "tasks", "description"], rows)
        print_definition_warnings(url, [(one.name, one.version or 1) for one in found])
    else:
        print_line("There are no workflow definitions. `conductor-worker workflow register FILE` registers some.")
    print_web_ui(address)


@examples("workflow export orders.py", "workflow export orders.py --output definitions")
def export(
    modules: Modules,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Directory for one file per workflow.", show_default=False)
    ] = None,
) -> None:
    """Write workflow definitions as JSON."""
    definitions = [definition.to_dict() for definition in find_definitions(modules)]
    if output is None:
        print_line(_json(definitions[0] if len(definitions) == 1 else definitions))
        return
    output.mkdir(parents=True, exist_ok=True)
    for definition in definitions:
        file = output / f"{definition['name']}.json"
        file.write_text(_json(definition) + "\n")
        print_line(str(file))


@examples(
    "workflow register orders.py", "workflow register orders.py --no-overwrite", "workflow register definitions/*.json"
)
def register(
    modules: Modules,
    url: Url = None,
    overwrite: Annotated[bool, typer.Option(help="Replace definitions of the same name and version.")] = True,
    as_json: AsJson = False,
) -> None:
    """Register workflow definitions on a server, with the schedules that they declare.

    The command also registers the task definitions that the workers of the modules
    declare, for example with retries=3.
    The command prints the server's warnings about parts that are probably mistakes.
    """
    known = registry.list_workers()
    definitions = find_definitions(modules)
    workers = [worker for worker in registry.list_workers() if worker not in known]
    # A definition in JSON is sent as it is written, so that the server sees fields that the model does not know.
    written = {(one["name"], one.get("version") or 1): one for name in modules for one in _read_json(name)}
    schedules = find_schedules(modules)
    configuration = make_configuration(url)
    with (
        silence_logger(DEFINITION_LOGGER),
        MetadataClient(configuration) as metadata,
        SchedulerClient(configuration) as scheduler,
    ):
        for definition in definitions:
            try:
                body = written.get((definition.name, definition.version or 1), definition)
                metadata.update_workflow_def(body, overwrite)
                if schedule := schedules.get(definition.name):
                    scheduler.save_schedule(schedule)
            except ApiException as error:
                raise UserError(f"{_title(definition)}: {error.reason or error}") from None
            except TransportError as error:
                raise unreachable_error(configuration, error) from None
            except ConductorError as error:
                raise UserError(error) from None
            if not as_json:
                schedule = schedules.get(definition.name)
                when = "" if schedule is None else f", starts at {schedule.cron_expression} {schedule.zone_id}"
                print_line(f"{_title(definition)}: registered{when}")
    for task_type in _register_task_definitions(workers, url, overwrite=overwrite):
        if not as_json:
            print_line(f"task {task_type}: registered")
    warnings = print_definition_warnings(url, [(one.name, one.version or 1) for one in definitions])
    if as_json:
        found = [{"name": one.name, "version": one.version or 1} for one in definitions]
        print_json(
            [{**one, "warnings": [text for text in warnings if text.startswith(f"{one['name']}: ")]} for one in found]
        )


def _register_task_definitions(workers: Sequence[Worker], url: str | None, *, overwrite: bool) -> list[str]:
    """Register the task definitions that workers declare. Return the task types that were registered."""
    # Imported here, because it is large and no other command needs it.
    from conductor.client.automator.registration import register_definition

    kept = {} if overwrite else {"overwrite_task_def": False}
    try:
        configs = [
            resolve_worker_config(one.get_task_definition_name(), {**get_code_options(one), **kept}) for one in workers
        ]
    except ConfigurationError as error:
        raise UserError(error) from None
    declared = [(worker, config) for worker, config in zip(workers, configs, strict=True) if config.register_task_def]
    if not declared:
        return []

    async def register_all(api: AsyncApiClient) -> list[str]:
        return [config.worker_name for worker, config in declared if await register_definition(worker, config, api)]

    with silence_logger(DEFINITION_LOGGER):
        return call_server(url, register_all)


@examples("workflow diff orders.py", "workflow diff orders.py --json")
def diff(modules: Modules, url: Url = None, as_json: AsJson = False) -> int:
    """Compare workflow definitions with those on a server.

    The exit status is 1 if registering them would change something.
    """
    changes = []
    with MetadataClient(make_configuration(url)) as metadata:
        for definition in find_definitions(modules):
            change, *lines = list(_compare(definition, _read_registered(metadata, definition))) or ["unchanged"]
            changes.append(
                {"name": definition.name, "version": definition.version or 1, "change": change, "diff": lines}
            )
            if not as_json:
                print_line("\n".join([f"{_title(definition)}: {change}", *lines]))
    if as_json:
        print_json(changes)
    return 0 if all(one["change"] == "unchanged" for one in changes) else 1


def find_definitions(modules: list[str]) -> list[WorkflowDef]:
    """Return the definitions in JSON files, and those of the module-level workflows of modules, each once."""
    # Imported here, because it is large and no other command needs it.
    from conductor.client.workflow.conductor_workflow import ConductorWorkflow

    found: dict[tuple[str, int], WorkflowDef] = {}
    for name in modules:
        has_workflow = False
        for value in _list_values(name):
            definition = value.to_workflow_def() if isinstance(value, ConductorWorkflow) else value
            if isinstance(definition, WorkflowDef):
                has_workflow = True
                found[definition.name, definition.version or 1] = definition
        if not has_workflow:
            raise UserError(f"{name} has no module-level workflow, neither a ConductorWorkflow nor a WorkflowDef")
    return list(found.values())


def find_schedules(modules: list[str]) -> dict[str, SaveScheduleRequest]:
    """Return the schedules that module-level workflows declare, by the name of the workflow."""
    from conductor.client.workflow.authoring_errors import WorkflowError
    from conductor.client.workflow.conductor_workflow import ConductorWorkflow

    values = [value for name in modules for value in _list_values(name)]
    try:
        found = [value.to_schedule() for value in values if isinstance(value, ConductorWorkflow)]
    except WorkflowError as error:
        raise UserError(error) from None
    return {schedule.name or "": schedule for schedule in found if schedule is not None}


def _list_values(name: str) -> list[Any]:
    """Return the definitions of a JSON file, or the module-level values of a Python file, module or package.

    The values of a package include those of its submodules.
    """
    if _is_json(name):
        return [WorkflowDef.from_dict(one) for one in _read_json(name)]
    module = _import_module(name)
    if not hasattr(module, "__path__"):
        return list(vars(module).values())
    return [value for one in import_modules([module.__name__]) for value in vars(one).values()]


def _is_json(name: str) -> bool:
    return name.endswith(".json")


def _read_json(name: str) -> list[dict[str, Any]]:
    """Return the definitions in a JSON file, which contains one object or a list.

    For a module, return no definitions.
    """
    if not _is_json(name):
        return []
    try:
        found = json.loads(Path(name).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {name}: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"{name} is not JSON: {error}") from None
    definitions = found if isinstance(found, list) else [found]
    for one in definitions:
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            raise UserError(f"{name} must contain a workflow definition (an object with a name), or a list of them")
    return definitions


def _import_module(name: str) -> ModuleType:
    add_import_path(Path.cwd())
    file, module = Path(name), name
    if name.endswith(".py") and file.is_file():
        home, module = _find_module_name(file.resolve())
        add_import_path(home)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name == module:
            raise UserError(f"{name!r} is neither a module that can be imported nor an existing Python file") from None
        raise UserError(f"cannot import {name}: {error}") from None
    except Exception as error:  # the user's code may raise anything
        raise UserError(f"cannot import {name}: {type(error).__name__}: {error}") from None


def _find_module_name(file: Path) -> tuple[Path, str]:
    """Return the directory to import a file from, and the module name with the packages that contain the file."""
    home = file.parent
    parts = [] if file.stem == "__init__" else [file.stem]
    while (home / "__init__.py").is_file() and home.name.isidentifier():
        parts.insert(0, home.name)
        home = home.parent
    return home, ".".join(parts) or file.stem


def _read_registered(metadata: MetadataClient, definition: WorkflowDef) -> WorkflowDef | None:
    try:
        return metadata.get_workflow_def(definition.name, definition.version or 1)
    except NotFoundException:
        return None
    except ConductorError as error:
        raise UserError(error) from None


def _compare(here: WorkflowDef, there: WorkflowDef | None) -> Iterator[str]:
    if there is None:
        yield "new"
        return
    before, after = (_json(_without_defaults(one.to_dict()), sort_keys=True).splitlines() for one in (there, here))
    if before != after:
        yield "changed"
        yield from difflib.unified_diff(before, after, "server", "here", lineterm="")


def _without_defaults(value: Any) -> Any:
    """Return a definition without defaults and without the fields that the server adds."""
    if isinstance(value, list):
        return [_without_defaults(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for name, item in value.items():
        meant = item if name in _USERS_OWN else _without_defaults(item)
        if name not in _SERVERS_OWN and meant not in (None, False, 0, "", [], {}) and _ASSUMED.get(name) != meant:
            kept[name] = meant
    return kept


def _title(definition: WorkflowDef) -> str:
    return f"{definition.name} version {definition.version or 1}"


def _json(value: Any, *, sort_keys: bool = False) -> str:
    return json.dumps(value, indent=2, sort_keys=sort_keys, ensure_ascii=False)
