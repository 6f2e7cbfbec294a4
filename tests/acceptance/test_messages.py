"""Messages to workflows. A Conductor server answers 404 unless its messages are enabled, as on SQLite here."""

from __future__ import annotations

import pytest

from tests.acceptance.api import Api


def pull(ref: str, batch_size: int = 1) -> dict[str, object]:
    inputs = {"batchSize": batch_size}
    return {"name": ref, "taskReferenceName": ref, "type": "PULL_WORKFLOW_MESSAGES", "inputParameters": inputs}


@pytest.fixture
def messages(api: Api) -> Api:
    """The server, if it has messages."""
    if (
        api.register(pull("one")).status_code != 200
        or "No static resource" in api.client.post("/workflow/unknown/messages", json={}).text
    ):
        pytest.skip("this server has no messages: conductor.workflow-message-queue.enabled is false")
    return api


def test_messages_are_taken_in_order_and_each_once(messages: Api) -> None:
    workflow_id = messages.start(pull("one"), pull("rest", 10))
    sent = [messages.client.post(f"/workflow/{workflow_id}/messages", json={"n": number}) for number in range(2)]
    assert [answer.status_code for answer in sent] == [200, 200]
    found = messages.until(workflow_id, lambda found: found["status"] == "COMPLETED")
    taken = [task["outputData"]["messages"] for task in found["tasks"]]
    assert [[message["payload"] for message in batch] for batch in taken] == [[{"n": 0}], [{"n": 1}]]
    assert [batch[0]["id"] for batch in taken] == [answer.text for answer in sent]
    assert {batch[0]["workflowId"] for batch in taken} == {workflow_id}
    assert [task["outputData"]["count"] for task in found["tasks"]] == [1, 1]


def test_only_a_running_workflow_accepts_a_message(messages: Api) -> None:
    assert messages.client.post("/workflow/unknown/messages", json={}).status_code == 404
    workflow_id = messages.start(pull("one"))
    assert messages.client.delete(f"/workflow/{workflow_id}").status_code == 200
    assert messages.client.post(f"/workflow/{workflow_id}/messages", json={}).status_code == 409
