"""The definitions and schemas that a worker registers when it starts, on servers with and without a schema registry."""

import logging
from dataclasses import dataclass

import pytest

from conductor.client.automator.json_schema_generator import generate_json_schemas
from conductor.client.automator.registration import register
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.models.schema_def import SchemaDef
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_def import TaskDef
from conductor.client.worker.worker import Worker
from conductor.client.worker.worker_config import resolve_worker_config
from conductor.client.worker.worker_interface import WorkerInterface
from conductor.testing import ConductorStub, Malformed, Reset, Status

LOGGER = "conductor.client.automator.registration"


@dataclass
class Order:
    id: str


def process_order(order: Order) -> dict: ...


@pytest.fixture
def stub():
    with ConductorStub(schemas=True) as server:
        yield server


@pytest.fixture
def plain_stub():
    with ConductorStub() as server:
        yield server


async def registered(stub, worker, configuration=None, **options):
    config = resolve_worker_config(worker.get_task_definition_name(), options, env={})
    client = AsyncApiClient(configuration or Configuration(stub.url, ui_host="http://ui.example/"))
    try:
        await register(worker, config, client)
    finally:
        await client.rest.close()


@pytest.fixture
def lines(caplog):
    """Return the log lines so far."""
    caplog.set_level(logging.INFO, LOGGER)
    return lambda: [(record.levelname, record.getMessage()) for record in caplog.records if record.name == LOGGER]


def made(stub):
    """The calls that change something."""
    return [(request.method, request.path) for request in stub.requests if request.method != "GET"]


NEW = [
    ("INFO", "Registering task definition: process_order"),
    ("INFO", "Registered input schema: process_order_input"),
    ("INFO", "Registered output schema: process_order_output"),
    ("INFO", "Registered task definition: process_order"),
    ("INFO", "View at: http://ui.example/taskDef/process_order"),
]


@pytest.mark.parametrize("overwrite", [True, False])
async def test_a_new_definition_with_its_schemas(stub, lines, overwrite):
    await registered(stub, Worker("process_order", process_order), overwrite_task_def=overwrite)
    assert lines() == NEW
    assert stub.task_defs["process_order"] == {
        "name": "process_order",
        "inputSchema": {"name": "process_order_input", "version": 1, "type": "JSON"},
        "outputSchema": {"name": "process_order_output", "version": 1, "type": "JSON"},
    }
    expected = generate_json_schemas(process_order, "process_order")
    for side in ("input", "output"):
        schema = stub.schemas[f"process_order_{side}", 1]
        assert (schema["type"], schema["data"]) == ("JSON", expected[side])


@pytest.mark.parametrize(
    ("worker_says", "configuration_says", "registered_schemas"),
    [(None, None, 2), (False, None, 0), (None, False, 0), (True, False, 2), (False, True, 0)],
)
async def test_schemas_may_be_left_out(stub, worker_says, configuration_says, registered_schemas):
    configuration = Configuration(stub.url, register_schema=configuration_says)
    await registered(stub, Worker("process_order", process_order), configuration, register_schema=worker_says)
    assert len(stub.schemas) == registered_schemas
    assert ("inputSchema" in stub.task_defs["process_order"]) is bool(registered_schemas)


async def test_a_template_may_be_an_attribute_of_a_class(stub):
    class Sized(WorkerInterface):
        task_def_template = TaskDef(retry_count=9)

        def execute(self, task): ...

    await registered(stub, Sized("sized"))
    assert stub.task_defs["sized"]["retryCount"] == 9


async def test_the_strictness_of_the_worker_is_the_schema_s(stub):
    await registered(stub, Worker("process_order", process_order), strict_schema=True)
    assert stub.schemas["process_order_input", 1]["data"]["additionalProperties"] is False


async def test_overwriting_replaces_definition_and_schemas(stub, lines):
    def older(order: str) -> int: ...

    await registered(stub, Worker("process_order", older, task_def=TaskDef(retry_count=9)))
    await registered(stub, Worker("process_order", process_order))
    assert lines()[5:] == [
        *NEW[:3],
        ("INFO", "Registered/Updated task definition: process_order"),
        NEW[4],
    ]
    assert "retryCount" not in stub.task_defs["process_order"]
    assert stub.schemas["process_order_output", 1]["data"]["type"] == "object"
    assert "result" not in stub.schemas["process_order_output", 1]["data"].get("properties", {})


async def test_without_overwriting_nothing_that_exists_is_touched(stub, lines):
    await registered(stub, Worker("process_order", process_order))
    before = len(made(stub))
    await registered(
        stub, Worker("process_order", process_order, task_def=TaskDef(retry_count=9)), overwrite_task_def=False
    )
    assert lines()[5:] == [
        ("INFO", "Registering task definition: process_order"),
        ("INFO", "Task definition exists - skipping (overwrite=false)"),
    ]
    assert made(stub)[before:] == []


async def test_without_overwriting_a_schema_that_exists_is_linked_and_left_alone(stub):
    await registered(stub, Worker("process_order", process_order))
    client = AsyncApiClient(Configuration(stub.url))
    await client.call("DELETE", "/metadata/taskdefs/process_order")
    await client.rest.close()
    before = stub.schemas

    def changed(other: int) -> dict: ...

    await registered(stub, Worker("process_order", changed), overwrite_task_def=False)
    assert stub.schemas == before
    assert stub.task_defs["process_order"]["inputSchema"]["name"] == "process_order_input"


async def test_a_server_without_a_schema_registry_gets_the_definition_and_one_warning_is_logged(plain_stub, lines):
    await registered(plain_stub, Worker("process_order", process_order))
    assert lines() == [
        ("INFO", "Registering task definition: process_order"),
        ("WARNING", "Schema registry not available on server (404)"),
        ("INFO", "Registered task definition: process_order"),
        ("INFO", "View at: http://ui.example/taskDef/process_order"),
    ]
    assert plain_stub.task_defs == {"process_order": {"name": "process_order"}}


async def test_without_a_registry_and_without_overwriting_it_goes_on_too(plain_stub, lines):
    await registered(plain_stub, Worker("process_order", process_order), overwrite_task_def=False)
    assert ("WARNING", "Schema registry not available on server (404)") in lines()
    assert "process_order" in plain_stub.task_defs


async def test_the_template_is_copied_and_renamed(stub):
    template = TaskDef(name="other", retry_count=7, timeout_seconds=60, input_schema=SchemaDef(name="mine", version=3))
    worker = Worker("greet", lambda task: None, task_def=template)
    await registered(stub, worker)
    definition = stub.task_defs["greet"]
    assert (definition["retryCount"], definition["timeoutSeconds"]) == (7, 60)
    assert definition["inputSchema"]["name"] == "mine"  # the function says nothing, so the template's stays
    assert (template.name, worker.task_def) == ("other", template)
    await registered(stub, Worker("process_order", process_order, task_def=template))
    assert template.input_schema is not None
    assert template.input_schema.name == "mine"


async def test_a_template_may_be_a_dict(stub):
    await registered(stub, Worker("greet", lambda task: None, task_def={"retryCount": 2}))  # type: ignore[arg-type]
    assert stub.task_defs["greet"] == {"name": "greet", "retryCount": 2}


async def test_p31_a_worker_that_takes_the_task_registers_no_input_schema(stub):
    def f(task: Task) -> dict: ...

    await registered(stub, Worker("takes_task", f))
    assert list(stub.schemas) == [("takes_task_output", 1)]
    assert "inputSchema" not in stub.task_defs["takes_task"]


async def test_a_class_based_worker_registers_its_name(stub):
    class Resize(WorkerInterface):
        def execute(self, task): ...

    await registered(stub, Resize("resize"))
    assert stub.task_defs == {"resize": {"name": "resize"}}
    assert stub.schemas == {}


@pytest.mark.parametrize("route", ["taskdefs", "schema"])
@pytest.mark.parametrize("behaviour", [Status(500), Status(400), Malformed(b"{", raw=True), Reset()], ids=repr)
async def test_a_server_that_fails_is_one_warning_and_no_exception(stub, lines, route, behaviour):
    stub.script(route, behaviour, repeat=True)
    await registered(stub, Worker("process_order", process_order))
    (warning,) = [message for level, message in lines() if level == "WARNING"]
    assert warning.startswith("Failed to register task definition: ")
    assert "\n" not in warning


async def test_no_server_is_one_warning(stub, lines):
    stub.stop()
    await registered(stub, Worker("process_order", process_order))
    assert [level for level, _ in lines()] == ["INFO", "WARNING"]


async def test_a_function_that_cannot_be_read_is_one_warning(stub, lines):
    class Odd:
        __signature__ = "none"

        def __call__(self): ...

    await registered(stub, Worker("odd", Odd()))
    assert [level for level, _ in lines()] == ["INFO", "WARNING"]


async def test_registration_is_quiet_if_the_options_of_workers_are_not_logged_u2_4(stub, lines):
    configuration = Configuration(stub.url)
    configuration.logs_worker_options = False
    await registered(stub, Worker("process_order", process_order), configuration)
    assert "process_order" in stub.task_defs
    assert lines() == []
