"""Workflows have the names, parameters, JSON and requests of conductor-python 2.0.0."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.other_sdks import Unavailable, conductor_python

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("conductor-python"), pytest.mark.timeout(600)]

SCRIPTS = Path(__file__).parent / "sdk_scripts"
PACKAGE = "conductor.client.workflow"

#: Names of conductor-python that are missing here or have other parameters, with the reason.
EXCEPTIONS = {
    # Generated marshalling tables of conductor-python: here `to_dict()` describes the objects.
    "http_poll_task.HttpPollInput.attribute_map": "no marshalling tables",
    "http_poll_task.HttpPollInput.swagger_types": "no marshalling tables",
    "http_task.HttpInput.attribute_map": "no marshalling tables",
    "http_task.HttpInput.swagger_types": "no marshalling tables",
    "kafka_publish_input.KafkaPublishInput.attribute_map": "no marshalling tables",
    "kafka_publish_input.KafkaPublishInput.swagger_types": "no marshalling tables",
    "llm_tasks.utils.embedding_model.EmbeddingModel.attribute_map": "no marshalling tables",
    "llm_tasks.utils.embedding_model.EmbeddingModel.swagger_types": "no marshalling tables",
    "llm_tasks.utils.prompt.Prompt.attribute_map": "no marshalling tables",
    "llm_tasks.utils.prompt.Prompt.swagger_types": "no marshalling tables",
}


#: Clients of conductor-python, each with its class and that class under its Orkes name.
CLIENTS = {
    "orkes_clients": ["OrkesClients"],
    "workflow_client": ["WorkflowClient", "orkes.orkes_workflow_client.OrkesWorkflowClient"],
    "task_client": ["TaskClient", "orkes.orkes_task_client.OrkesTaskClient"],
    "metadata_client": ["MetadataClient", "orkes.orkes_metadata_client.OrkesMetadataClient"],
    "scheduler_client": ["SchedulerClient", "orkes.orkes_scheduler_client.OrkesSchedulerClient"],
    "secret_client": ["SecretClient", "orkes.orkes_secret_client.OrkesSecretClient"],
    "schema_client": ["SchemaClient", "orkes.orkes_schema_client.OrkesSchemaClient"],
    "event.event_client": ["EventClient"],
    "authorization_client": ["AuthorizationClient", "orkes.orkes_authorization_client.OrkesAuthorizationClient"],
    "integration_client": ["IntegrationClient", "orkes.orkes_integration_client.OrkesIntegrationClient"],
    "prompt_client": ["PromptClient", "orkes.orkes_prompt_client.OrkesPromptClient"],
}
#: Models that are not here.
MODEL_EXCEPTIONS = {
    "auditable.Auditable": "their base of models that know who made them; the fields are in each model",
    "circuit_breaker_transition_response.CircuitBreakerTransitionResponse": "the service registry of Orkes is not here",
    "proto_registry_entry.ProtoRegistryEntry": "the service registry of Orkes is not here",
    "request_param.RequestParam": "the service registry of Orkes is not here",
    "request_param.Schema": "the service registry of Orkes is not here",
    "service_method.RequestParam": "the service registry of Orkes is not here",
    "service_method.ServiceMethod": "the service registry of Orkes is not here",
    "service_registry.Config": "the service registry of Orkes is not here",
    "service_registry.OrkesCircuitBreakerConfig": "the service registry of Orkes is not here",
    "service_registry.ServiceRegistry": "the service registry of Orkes is not here",
    "service_registry.ServiceType": "the service registry of Orkes is not here",
    "response.Response": "has no fields and stands for whatever a server answers: such answers are plain JSON",
    "authorization_request.AccessEnum": "access is given as text",
    "tag_string.TypeEnum": "is at tag_object.TypeEnum",
    "upsert_user_request.RolesEnum": "roles are given as text",
    "task_result_status.TaskExecLog": "the real one is at task_exec_log",
    "task_result_status.TaskResult": "the real one is at task_result",
    "workflow_test_request.TaskMock": "theirs takes its fields with an underscore by accident; here by their names",
}
#: Requests of their generated classes that differ here.
REQUEST_EXCEPTIONS = {
    "TaskResourceApi.update_task1": "theirs adds a worker id, the host's name",
    "TaskResourceApi.update_task_sync": "theirs adds a worker id, the host's name",
    "WorkflowResourceApi.jump_to_task": "theirs leaves the braces in the path",
    "WorkflowResourceApi.skip_task_from_workflow": "theirs sends the object as text in the query; here it is the body",
    "WorkflowResourceApi.update_workflow_and_task_state": "theirs makes up a request id",
}


@pytest.fixture(scope="module")
def python() -> Path:
    try:
        return conductor_python()
    except Unavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"conductor-python cannot be installed here: {error}")


def output_of(python: Path | str, script: str, *args: str) -> Any:
    """Return the JSON that a script prints."""
    command = [str(python), str(SCRIPTS / script), *args]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CONDUCTOR"))}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env, cwd=SCRIPTS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def theirs(python: Path) -> dict[str, Any]:
    return output_of(python, "public_names.py", PACKAGE)  # type: ignore[no-any-return]


class TestNames:
    def test_many_public_names_are_compared(self, theirs: dict[str, Any]) -> None:
        assert len(theirs) > 150

    def test_every_public_name_of_theirs_is_here_with_the_same_parameters(self, theirs: dict[str, Any]) -> None:
        ours = output_of(sys.executable, "public_names.py", PACKAGE, *sorted(theirs))
        short = {name: name.removeprefix(f"{PACKAGE}.task.").removeprefix(f"{PACKAGE}.") for name in theirs}
        different = {
            name: (parameters, ours[name])
            for name, parameters in theirs.items()
            if short[name] not in EXCEPTIONS and not _same(parameters, ours[name])
        }
        assert not different

    def test_the_exceptions_are_still_exceptions(self, theirs: dict[str, Any]) -> None:
        assert {f"{PACKAGE}.task.{name}" for name in EXCEPTIONS} <= theirs.keys()


def _same(theirs: Any, ours: Any, *, may_be_optional: bool = False) -> bool:
    """A parameter that only we have may follow, if it has a default."""
    if not isinstance(theirs, list) or not isinstance(ours, list):
        return theirs == ours  # type: ignore[no-any-return]
    first, more = ours[: len(theirs)], ours[len(theirs) :]
    if may_be_optional:
        first = [[name, "required" if wanted == "required" else has] for (_, wanted), (name, has) in zip(theirs, first)]
    return first == theirs and all(default != "required" for _, default in more)


class TestClients:
    def test_every_method_is_here_with_the_same_parameters(self, python: Path) -> None:
        """Required parameters of conductor-python may be optional here."""
        classes = [
            f"conductor.client.{name if '.' in name else f'{module}.{name}'}"
            for module, names in CLIENTS.items()
            for name in names
        ]
        all_of_theirs = output_of(python, "public_names.py", "conductor.client")
        theirs = {name: parameters for name, parameters in all_of_theirs.items() if name.rpartition(".")[0] in classes}
        assert len(theirs) > 250
        ours = output_of(sys.executable, "public_names.py", "conductor.client", *sorted(theirs))
        different = {
            name: (parameters, ours[name])
            for name, parameters in theirs.items()
            if not _same(parameters, ours[name], may_be_optional=True)
        }
        assert not different

    def test_the_generated_classes_make_the_same_requests(self, python: Path) -> None:
        theirs, ours = (output_of(each, "generated_requests.py") for each in (python, sys.executable))
        assert len(theirs) > 190
        assert {name for name in theirs if theirs[name] != ours.get(name)} == REQUEST_EXCEPTIONS.keys()


def test_every_model_is_here_and_takes_the_same_fields(python: Path) -> None:
    theirs = output_of(python, "model_fields.py")
    ours = output_of(sys.executable, "model_fields.py", *theirs)
    assert len(theirs) > 70
    missing = {
        ".".join(name.split(".")[-2:]): sorted(set(fields) - set(ours.get(name, ())))
        for name, fields in theirs.items()
        if name not in ours or not set(fields) <= set(ours[name])
    }
    assert missing.keys() == MODEL_EXCEPTIONS.keys(), missing


def test_the_same_programs_make_the_same_json(python: Path) -> None:
    theirs = output_of(python, "workflow_programs.py")
    ours = output_of(sys.executable, "workflow_programs.py")
    assert len(theirs) >= 40
    assert {name: json.loads(text) for name, text in ours.items()} == {
        name: json.loads(text) for name, text in theirs.items()
    }
