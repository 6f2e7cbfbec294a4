"""Models: keyword construction in snake_case, camelCase on the wire, and defaults for a server's nulls."""

from __future__ import annotations

import copy
import json
import pickle
import re
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect as types

from conductor.client.http import models
from conductor.client.http.models import (
    Model,
    SchemaDef,
    SearchResult,
    StartWorkflowRequest,
    Task,
    TaskDef,
    TaskExecLog,
    TaskResult,
    TaskResultStatus,
    TaskSummary,
    Workflow,
    WorkflowDef,
    WorkflowTask,
)

ALL_MODELS = sorted(
    (
        model
        for model in map(models.__getattr__, dir(models))
        if isinstance(model, type) and issubclass(model, Model) and model is not Model
    ),
    key=lambda model: model.__name__,
)

#: Small ones, which programs for conductor-python make without keywords, as they do TaskResult and TaskExecLog.
WITHOUT_KEYWORDS = [
    "AuthorizationRequest",
    "ConductorApplication",
    "ConductorUser",
    "CorrelationIdsSearchRequest",
    "CreateOrUpdateApplicationRequest",
    "ExternalStorageLocation",
    "GenerateTokenRequest",
    "Group",
    "Permission",
    "Role",
    "StateChangeConfig",
    "StateChangeEvent",
    "SubjectRef",
    "TagObject",
    "TagString",
    "TargetRef",
    "TaskMock",
    "Token",
    "UpsertGroupRequest",
    "UpsertUserRequest",
    "WorkflowStateUpdate",
]

#: The fields with durable steps. They are not models; `unit/durable` tests them.
STEPS = ("steps", "forget_steps")

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


def values_of(type_: types.Type, depth: int) -> st.SearchStrategy[Any]:
    """JSON values that a field of this type may have on the wire."""
    match type_:
        case types.UnionType(types=members):
            return st.one_of([values_of(member, depth) for member in members])
        case types.NoneType():
            return st.none()
        case types.StrType():
            return st.text(max_size=8)
        case types.BoolType():
            return st.booleans()
        case types.IntType():
            return st.integers(-(2**53), 2**53)
        case types.FloatType():
            return st.floats(allow_nan=False, allow_infinity=False)
        case types.EnumType(cls=cls):
            return st.sampled_from([str(member) for member in cls])
        case types.ListType(item_type=item):
            return st.just([]) if depth == 0 else st.lists(values_of(item, depth - 1), max_size=2)
        case types.DictType(value_type=value):
            if depth == 0:
                return st.just({})
            return st.dictionaries(st.text(max_size=4), values_of(value, depth - 1), max_size=2)
        case types.StructType():
            return st.fixed_dictionaries({}) if depth == 0 else wire_dicts(type_, depth - 1)
    return json_values


def wire_dicts(type_: types.StructType, depth: int) -> st.SearchStrategy[dict[str, Any]]:
    fields = {
        field.encode_name: field
        for field in type_.fields
        if field.name not in STEPS and not field.encode_name.endswith("in Python only")
    }
    some_names = st.sets(st.sampled_from(sorted(fields)), max_size=6)
    return some_names.flatmap(
        lambda names: st.fixed_dictionaries({n: values_of(fields[n].type, depth) for n in sorted(names)})
    )


def struct_info(model: type[Model]) -> types.StructType:
    info = types.type_info(model)
    assert isinstance(info, types.StructType)
    return info


@pytest.mark.parametrize("model", ALL_MODELS, ids=lambda model: model.__name__)
def test_a_model_survives_a_round_trip(model: type[Model]) -> None:
    @settings(max_examples=8, deadline=None)
    @given(wire=wire_dicts(struct_info(model), 2), unknown=json_values)
    def round_trip(wire: dict[str, Any], unknown: Any) -> None:
        read = model.decode(json.dumps(wire | {"unknownField": unknown}))
        assert model.decode(read.encode()) == read
        assert model.from_dict(read.to_dict()) == read
        assert json.loads(read.encode()) == read.to_dict()
        assert pickle.loads(pickle.dumps(read)) == read
        assert copy.deepcopy(read) == read

    round_trip()


@pytest.mark.parametrize("model", ALL_MODELS, ids=lambda model: model.__name__)
def test_every_field_may_be_null_and_then_reads_as_its_default(model: type[Model]) -> None:
    nulls = {field.encode_name: None for field in msgspec.structs.fields(model)}
    read, empty = model.decode(json.dumps(nulls)), model.decode(b"{}")
    if isinstance(read, TaskExecLog):
        assert (read.log, read.task_id) == ("", None)
        assert read.created_time > 0
    else:
        assert read == empty
    assert None not in read.to_dict().values()
    assert None not in json.loads(empty.encode()).values()


@pytest.mark.parametrize("model", ALL_MODELS, ids=lambda model: model.__name__)
def test_a_dict_may_spell_its_keys_either_way(model: type[Model]) -> None:
    full = model.decode(b"{}")
    snake = {field.name: getattr(full, field.name) for field in msgspec.structs.fields(model)}
    assert model.from_dict(snake) == full == model.from_dict(full.to_dict())


@pytest.mark.parametrize("model", ALL_MODELS, ids=lambda model: model.__name__)
def test_models_are_made_with_keywords_only(model: type[Model]) -> None:
    if model not in (TaskResult, TaskExecLog) and model.__name__ not in WITHOUT_KEYWORDS:
        with pytest.raises(TypeError):
            model("x")
    with pytest.raises(TypeError, match="nonsense"):
        model(nonsense=1)


@pytest.mark.parametrize(
    ("model", "wrong", "advice"),
    [
        (TaskDef, "retries", "did you mean 'retry_count'?"),
        (TaskDef, "retryCount", "did you mean 'retry_count'?"),
        (TaskDef, "response_timeout", "did you mean 'response_timeout_seconds'?"),
        (WorkflowDef, "task", "did you mean 'tasks'?"),
        (WorkflowTask, "xyz", "its fields are name, task_reference_name, "),
    ],
)
def test_a_definition_names_the_field_that_was_meant_u4_09(model: type[Model], wrong: str, advice: str) -> None:
    with pytest.raises(TypeError, match=re.escape(f"{model.__name__} has no field '{wrong}'; {advice}")):
        model(**{wrong: 3})


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (
            StartWorkflowRequest(name="w", input={"order": [{"when": object()}]}),
            "StartWorkflowRequest.input.order[0].when: an object of type object cannot be sent as JSON",
        ),
        (StartWorkflowRequest(name="w", input={"order": {(1, 2): 3}}), "StartWorkflowRequest.input.order: a key of"),
    ],
)
def test_a_value_that_is_not_json_is_named_with_its_place_u4_45(sent: Model, said: str) -> None:
    with pytest.raises(TypeError, match=re.escape(said)):
        sent.encode()


def test_defaults_are_not_shared() -> None:
    first, second = TaskResult(), TaskResult()
    first.add_output_data("k", 1).log("line")
    assert (second.output_data, second.logs) == ({}, [])
    Task().input_data["k"] = 1
    assert Task().input_data == {}
    TaskDef().with_defaults().input_template["k"] = 1  # type: ignore[index]
    assert TaskDef().with_defaults().input_template == {}


def test_nested_models_and_user_maps_in_from_dict() -> None:
    task = Task.from_dict(
        {
            "task_id": "t",
            "input_data": {"snake_key": {"taskId": None}},
            "task_definition": {"retry_count": 7, "input_schema": {"external_ref": "r"}},
            "workflowTask": {
                "decision_cases": {"a_b": [{"task_reference_name": "inner"}]},
                "fork_tasks": [[{"name": "f"}]],
            },
            "no_such_field": 1,
        }
    )
    assert task.input_data == {"snake_key": {"taskId": None}}
    assert task.task_definition is not None
    assert task.task_definition.retry_count == 7
    assert task.task_definition.input_schema == SchemaDef(external_ref="r")
    assert task.workflow_task is not None
    assert task.workflow_task.decision_cases == {"a_b": [WorkflowTask(task_reference_name="inner")]}
    assert task.workflow_task.fork_tasks == [[WorkflowTask(name="f")]]


def test_from_dict_takes_ready_made_models() -> None:
    definition = TaskDef(name="d")
    assert Task.from_dict({"task_definition": definition}).task_definition == definition
    assert TaskResult.from_dict({"status": TaskResultStatus.FAILED}).status is TaskResultStatus.FAILED


def test_a_task_as_the_server_sends_it() -> None:
    body = b"""[{"taskType":"greet","status":"IN_PROGRESS","inputData":{"name":"Ada","none":null},
      "referenceTaskName":"greet_ref","retryCount":1,"seq":1,"pollCount":1,"taskDefName":"greet","scheduledTime":1700000000000,"startTime":1700000000001,
      "endTime":0,"updateTime":1700000000001,"startDelayInSeconds":0,"retriedTaskId":"t0","retried":false,"executed":false,
      "callbackFromWorker":true,"responseTimeoutSeconds":3600,"workflowInstanceId":"w1","workflowType":"hello","taskId":"t1",
      "callbackAfterSeconds":0,"workerId":"me","outputData":{},"workflowTask":{"name":"greet","taskReferenceName":"greet_ref",
      "inputParameters":{"name":"${workflow.input.name}"},"type":"SIMPLE","taskDefinition":{"name":"greet","retryCount":3}},
      "rateLimitPerFrequency":0,"rateLimitFrequencyInSeconds":1,"workflowPriority":0,"iteration":0,"subworkflowChanged":false,
      "firstStartTime":0,"executionMetadata":{},"queueWaitTime":1,"loopOverTask":false,
      "taskDefinition":{"createdBy":"","name":"greet","retryCount":3,"timeoutSeconds":0},"leaseId":"l1","leaseExpiresAt":1700003600001}]"""
    (task,) = Task.decode_list(body)
    assert (task.task_id, task.workflow_instance_id, task.retry_count, task.poll_count) == ("t1", "w1", 1, 1)
    assert task.input_data == {"name": "Ada", "none": None}
    assert (task.lease_id, task.lease_expires_at, task.retried_task_id) == ("l1", 1700003600001, "t0")
    assert task.to_dict() == json.loads(body)[0]


def test_a_report_made_from_a_task() -> None:
    task = Task(task_id="t", workflow_instance_id="w", worker_id="me", lease_id="l")
    assert task.to_task_result() == TaskResult(task_id="t", workflow_instance_id="w", worker_id="me", lease_id="l")
    assert task.to_task_result(TaskResultStatus.FAILED).status is TaskResultStatus.FAILED


def test_a_result_says_its_status_even_when_it_is_the_usual_one() -> None:
    assert json.loads(TaskResult(task_id="t", workflow_instance_id="w").encode()) == {
        "taskId": "t",
        "workflowInstanceId": "w",
        "status": "COMPLETED",
    }


@pytest.mark.parametrize("status", list(TaskResultStatus))
def test_a_status_may_be_given_by_name(status: TaskResultStatus) -> None:
    by_name = TaskResult(status=status.value)  # type: ignore[arg-type]
    assert by_name.status is status
    assert by_name == TaskResult(status=status)


def test_a_status_no_result_can_have() -> None:
    with pytest.raises(ValueError, match="'TIMED_OUT' is not a status .* COMPLETED, FAILED"):
        TaskResult(status="TIMED_OUT")  # type: ignore[arg-type]
    with pytest.raises(msgspec.ValidationError, match="status"):
        TaskResult.decode(b'{"status": "TIMED_OUT"}')


def test_logs_of_a_result() -> None:
    result = TaskResult(task_id="t").log("first").log("second")
    assert [(line.log, line.task_id) for line in result.logs] == [("first", "t"), ("second", "t")]
    assert result.logs[0].created_time > 1_600_000_000_000, "milliseconds"
    assert [line["log"] for line in result.to_dict()["logs"]] == ["first", "second"]


def test_a_log_line_may_come_as_message_and_leaves_as_log() -> None:
    line = TaskExecLog.decode(b'{"message": "text", "createdTime": 5}')
    assert (line.log, line.created_time) == ("text", 5)
    assert line.to_dict() == {"log": "text", "createdTime": 5}


def test_only_what_was_set_of_a_definition_is_sent() -> None:
    assert json.loads(TaskDef(name="d", retry_count=3, timeout_seconds=0).encode()) == {
        "name": "d",
        "retryCount": 3,
        "timeoutSeconds": 0,
    }


def test_a_definition_with_the_servers_defaults() -> None:
    filled = TaskDef(name="d", retry_count=0, retry_logic="LINEAR_BACKOFF").with_defaults()
    assert (filled.name, filled.retry_count, filled.retry_logic) == ("d", 0, "LINEAR_BACKOFF")
    assert (filled.response_timeout_seconds, filled.retry_delay_seconds, filled.timeout_policy) == (
        3600,
        60,
        "TIME_OUT_WF",
    )
    assert filled.concurrent_exec_limit is None


def test_an_empty_input_of_a_workflow_is_sent() -> None:
    assert StartWorkflowRequest(name="w").to_dict() == {"name": "w", "input": {}}


def test_a_page_of_a_search_knows_its_items() -> None:
    page = msgspec.json.decode(b'{"totalHits": 9, "results": [{"taskId": "t"}]}', type=SearchResult[TaskSummary])
    assert page == SearchResult(total_hits=9, results=[TaskSummary(task_id="t")])


def test_the_latest_attempt_of_a_step() -> None:
    first, second = (Task(reference_task_name="a", retry_count=n) for n in (0, 1))
    workflow = Workflow(status="FAILED", tasks=[first, second, Task(reference_task_name="b")])
    assert workflow.task("a") is second
    assert workflow.task("c") is None
    assert workflow.is_terminal
    assert not Workflow(status="PAUSED").is_terminal


def test_models_can_be_subclassed() -> None:
    class Tagged(Task, kw_only=True):
        tag: str | None = None

    assert Tagged.decode(b'{"taskId": "t", "tag": "x", "inputData": null}') == Tagged(task_id="t", tag="x")
    assert Tagged(task_id="t") != Task(task_id="t")


def test_loading_one_model_leaves_the_others_alone() -> None:
    program = (
        "import sys; from conductor.client.http.models import TaskResult\n"
        "print('conductor.client.http.models.workflow' in sys.modules, TaskResult.__module__)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["False", "conductor.client.http.models.task_result"]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = models.Nonsense


def test_a_task_result_takes_output_by_its_short_name() -> None:
    result = TaskResult(status="COMPLETED", output={"result": 1})  # type: ignore[arg-type]
    assert result.output_data == {"result": 1}
    assert result.to_dict() == TaskResult(output_data={"result": 1}).to_dict()
    with pytest.raises(ValueError, match="output_data or output"):
        TaskResult(output={"a": 1}, output_data={"b": 2})
