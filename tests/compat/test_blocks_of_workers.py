"""Blocks that define workers: each is run as printed, and the functions it decorates then really do a task."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

import pytest

from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.testing import ConductorStub
from tests.compat import preamble

#: Stands in an input for the address of the test's web page.
PAGE = "<page>"
HELLO = {"hello": "world"}


@dataclass(frozen=True)
class Case:
    """One task for one worker of a block, and what must become of it."""

    block: str
    task_type: str
    input_data: dict[str, Any]
    output: dict[str, Any] | None
    status: str = "COMPLETED"
    reason: str | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    stand_ins: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.block}-{self.task_type}-{self.status}"


CASES = [
    Case("s001_041", "process_data", {"input_value": 21}, {"result": 42}),
    Case("s001_051", "fetch_data", {"url": PAGE}, {"data": HELLO}),
    Case("s001_167", "fetch_data", {"url": PAGE}, HELLO, stand_ins={"logger": preamble.EventLogger()}),
    Case("s001_167", "log_event", {"event": "e"}, {"result": None}, stand_ins={"logger": preamble.EventLogger()}),
    Case("s001_167", "notify", {"message": "m"}, {"result": None}),
    Case("s001_421", "process_order", {"order_id": "o-1"}, {"result": None}, fields={"domain": "dev"}),
    Case(
        "s001_448",
        "process_order",
        {"order": {"order_id": "o-1", "amount": 9.5, "customer_id": 7}},
        {"status": "processed", "order_id": "o-1"},
    ),
    Case("s001_559", "validate_order", {"order_id": "o-1", "amount": 9.5}, {}),
    Case(
        "s001_559",
        "validate_order",
        {"order_id": "o-1", "amount": 9.5, "more": 1},
        {},
        status="FAILED_WITH_TERMINAL_ERROR",
        reason="more",
    ),
    Case("s001_587", "stable_task", {"data": {"a": 1}}, {}),
    Case("s001_956", "compute_task", {"data": [1, 2, 3]}, {"result": 3}),
    Case("s001_956", "file_task", {"file_path": __file__}, None),
    Case("s001_956", "api_task", {"url": PAGE}, {"data": HELLO}),
    Case("s001_956", "mixed_task", {"url": PAGE}, {"result": {"processed": HELLO}}),
    Case("s001_1051", "wait_for_approval", {"request_id": "new"}, {"status": "waiting"}, status="IN_PROGRESS"),
    Case("s001_1051", "wait_for_approval", {"request_id": "good"}, {"status": "approved"}),
    Case(
        "s001_1051",
        "wait_for_approval",
        {"request_id": "bad"},
        {},
        status="FAILED",
        reason="Exception: Request rejected: DENIED",
    ),
    Case("s001_1104", "api_calls", {"url": PAGE}, HELLO),
    Case("s001_1446", "fetch_data", {"url": PAGE}, HELLO),
    Case("s001_1457", "fetch_data", {"url": PAGE}, HELLO),
    Case("s001_1491", "fetch_data", {"url": "u"}, {"url": "u"}),
    Case("s003_258", "cpu_task", {"data": "AAEC"}, {"result": 3}),
    Case("s003_258", "io_task", {"url": PAGE}, {"data": HELLO}),
    Case("s004_292", "image_processing", {"url": "u"}, {"result": "a cat on filtered image of u"}),
    Case("s004_311", "legacy_task", {}, {"result": [1, 2, 3]}),
    Case("s004_367", "database_query", {}, {"records": ["SELECT 1"]}),
    Case("s004_975", "critical_task", {}, {"result": None}, fields={"domain": "critical"}),
    Case("s004_975", "batch_task", {}, {"result": None}, fields={"domain": "batch"}),
    Case("s004_1027", "process_batch", {"items": [1, 2]}, {"results": [2, 4]}),
    Case("s004_1061", "external_api", {"url": PAGE}, {"data": HELLO}),
    Case("s004_1134", "legacy_sync", {}, {"result": [1, 2, 3]}),
    Case("s004_1134", "modern_async", {"url": PAGE}, {"result": HELLO}),
    Case("s004_1157", "rate_limited", {"url": PAGE}, {"data": HELLO}),
    Case("s004_1173", "batch_processor", {"items": [1, 2]}, {"results": [2, 4]}),
    Case("s004_1323", "my_task", {}, {"result": "called"}),
    Case("s004_1333", "my_task", {"url": PAGE}, {"data": HELLO}),
    Case("s004_1420", "long_task", {}, {"result": None}),
    Case("s004_1697", "my_task", {}, {"result": None}, fields={"domain": "my_domain"}),
    Case("s004_1709", "my_task", {}, {"result": None}),
]


@pytest.fixture(autouse=True)
def _libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiopg", preamble.aiopg)
    monkeypatch.setitem(sys.modules, "aiofiles", preamble.aiofiles)


async def done(server: ConductorStub, task_type: str, input_data: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Let the workers defined so far do one task; return their report."""
    task_id = server.add_task(task_type, input_data, **fields)
    async with TaskHandlerAsyncIO(configuration=Configuration(server.url)):
        await server.until(lambda: server.results_for(task_id))
    (report,) = server.results_for(task_id)
    return report


def filled(input_data: dict[str, Any], web: str) -> dict[str, Any]:
    return {key: web if value == PAGE else value for key, value in input_data.items()}


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_the_workers_of_a_block_do_their_tasks(
    case: Case, run_block: Any, server: ConductorStub, web: str
) -> None:
    run_block(case.block, **case.stand_ins)
    report = await done(server, case.task_type, filled(case.input_data, web), **case.fields)
    assert report["status"] == case.status
    if case.output is not None:
        assert report["outputData"] == case.output
    if case.reason is not None:
        assert case.reason in report["reasonForIncompletion"]


async def test_s001_167_awaits_what_it_calls(run_block: Any, server: ConductorStub) -> None:
    run_block("s001_167", logger=preamble.EventLogger())
    await done(server, "log_event", {"event": "login"})
    await done(server, "notify", {"message": "hi"})
    assert preamble.CALLS == [("log", "login"), ("send_notification", "hi")]
