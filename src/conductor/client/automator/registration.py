"""Registers a worker's task definition and the schemas of its input and output at the server.

If the registration fails, the worker logs a warning and starts without it.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from typing import Any

from conductor.client.automator.json_schema_generator import generate_json_schemas
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.async_rest import NotFoundException
from conductor.client.http.models.schema_def import SchemaDef
from conductor.client.http.models.task_def import TaskDef
from conductor.client.metadata_client import AsyncMetadataClient
from conductor.client.schema_client import AsyncSchemaClient
from conductor.client.worker.worker_config import ResolvedConfig
from conductor.client.worker.worker_interface import WorkerInterface

logger = logging.getLogger(__name__)

_SCHEMA_VERSION = 1


async def register(worker: WorkerInterface, config: ResolvedConfig, client: AsyncApiClient) -> None:
    """Register the worker's task definition and schemas. Never raise.

    With `overwrite_task_def`, existing definitions are replaced; without it, only missing ones are created.
    """
    name = worker.get_task_definition_name()
    level = logging.INFO if client.configuration.logs_worker_options else logging.DEBUG
    logger.log(level, "Registering task definition: %s", name)
    try:
        await register_definition(worker, config, client, level)
    except Exception as error:  # a worker without a registered definition still works
        logger.warning("Failed to register task definition: %s (task_type=%s)", error, name)


async def register_definition(
    worker: WorkerInterface, config: ResolvedConfig, client: AsyncApiClient, level: int = logging.DEBUG
) -> bool:
    """Register the worker's task definition and schemas. Log each call at `level`.

    Returns:
        False if the definition exists and `overwrite_task_def` is off, so that nothing was registered.

    Raises:
        ConductorError: The server rejected a call, or did not answer.
    """
    name = worker.get_task_definition_name()
    metadata_api = AsyncMetadataClient(client)
    if not config.overwrite_task_def:
        try:
            await metadata_api.get_task_def(name)
            logger.log(level, "Task definition exists - skipping (overwrite=false)")
            return False
        except NotFoundException:
            pass
    links = await _register_schemas(name, worker, config, AsyncSchemaClient(client), level)
    definition = _make_definition(name, worker, links)
    is_updated = False
    if config.overwrite_task_def:
        try:
            await metadata_api.update_task_def(definition)
            is_updated = True
        except NotFoundException:
            pass
    if not is_updated:
        await metadata_api.register_task_def(definition)
    action = "Registered/Updated" if is_updated else "Registered"
    logger.log(level, "%s task definition: %s", action, definition.name)
    logger.log(level, "View at: %s/taskDef/%s", client.configuration.ui_host.rstrip("/"), name)
    return True


async def _register_schemas(
    name: str, worker: WorkerInterface, config: ResolvedConfig, schema_api: AsyncSchemaClient, level: int
) -> dict[str, SchemaDef]:
    """Register the schemas of the type hints. Return references to them under the keys `input` and `output`."""
    function = getattr(worker, "execute_function", None)
    if function is None:  # a class-based worker receives the whole task, so its type hints say nothing about the input
        return {}
    if not _wants_schemas(config, schema_api.api_client.configuration):
        return {}
    links: dict[str, SchemaDef] = {}
    for side, data in generate_json_schemas(function, name, config.strict_schema).items():
        if data is None:
            continue
        schema = SchemaDef(name=f"{name}_{side}", version=_SCHEMA_VERSION, data=data)
        try:
            await _register_schema(schema, schema_api, overwrite=config.overwrite_task_def)
        except NotFoundException:
            logger.warning("Schema registry not available on server (404)")
            return {}
        logger.log(level, "Registered %s schema: %s", side, schema.name)
        links[side] = SchemaDef(name=schema.name, version=schema.version)
    return links


def _wants_schemas(config: ResolvedConfig, configuration: Configuration) -> bool:
    """Return the option `register_schema` of the worker or, if the worker does not set it, of the Configuration."""
    is_set = config.source("register_schema") != "default"
    return config.register_schema if is_set else configuration.register_schema


async def _register_schema(schema: SchemaDef, schema_api: AsyncSchemaClient, *, overwrite: bool) -> None:
    if not overwrite:
        try:
            await schema_api.get_schema(schema.name, schema.version)
            return
        except NotFoundException:
            pass  # register the schema; if the server has no registry at all, that call fails, too
    await schema_api.register_schema(schema)


def _make_definition(name: str, worker: WorkerInterface, links: Mapping[str, SchemaDef]) -> TaskDef:
    """Return a copy of the worker's template under the worker's name; without a template, a minimal definition."""
    template: TaskDef | Mapping[str, Any] | None = getattr(worker, "task_def", None)
    if template is None:
        template = getattr(worker, "task_def_template", None)
    if isinstance(template, Mapping):
        template = TaskDef.from_dict(template)
    definition = copy.deepcopy(template) if template is not None else TaskDef()
    definition.name = name
    definition.input_schema = links.get("input", definition.input_schema)
    definition.output_schema = links.get("output", definition.output_schema)
    return definition
