"""The order pipeline of `examples`, tested as its author would."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from conductor.client.worker import registry
from examples import order_pipeline as shop
from examples.order_pipeline import Line, Order

WORKERS = [
    registry.find_worker(function)
    for function in (
        shop.check_order,
        shop.charge_card,
        shop.pack_line,
        shop.book_van,
        shop.drive,
        shop.send_survey,
        shop.refund,
        shop.count_orders,
    )
]
SMALL = Order("A-1", "Ada", "Elm Street 1", [Line("lamp", 2, 1999), Line("desk", 1, 9900)])
LARGE = Order("A-2", "Ada", "Elm Street 1", [Line("sofa", 1, 150_000)])


@pytest.fixture(autouse=True)
def _workers(workers: None) -> Iterator[None]:
    for worker in WORKERS:
        assert worker is not None
        registry.register(worker)
    yield


def test_every_workflow_is_valid() -> None:
    for one in (shop.delivery, shop.cancel_order, shop.pipeline, shop.nightly_report):
        assert one.problems() == []
    assert shop.nightly_report.run() == {"orders": 42}


def test_a_small_order_is_delivered_without_an_approval(run_workflow: Any) -> None:
    run = run_workflow(shop.pipeline, {"order": SMALL}, mocks={"pay": {"result": "R-1"}})
    assert run.output == {"receipt": "R-1", "arrived": "van for 2 parcels to Elm Street 1"}
    assert run.task("survey").status == "COMPLETED_WITH_ERRORS"


def test_a_large_order_waits_for_an_approval_and_a_flaky_bank(run_workflow: Any) -> None:
    mocks = {"charge_card": [ConnectionError("bank"), {"result": "R-2"}], "send_survey": {}}
    run = run_workflow(shop.pipeline, {"order": LARGE}, mocks=mocks).until_waiting("approval")
    run.complete("approval", {"by": "Grace"})
    assert run.waiting == ["pay"]
    assert run.skip(seconds=2).output["receipt"] == "R-2"


def test_a_failed_order_is_refunded(run_workflow: Any) -> None:
    run = run_workflow(shop.pipeline, {"order": SMALL}, mocks={"pay": ConnectionError("bank")}).skip_retries()
    assert run.status == "FAILED"
    assert len([task for task in run.execution.tasks if task.reference_task_name == "pay"]) == 6
    assert "bank" in run.failure_workflow.task("refund").output_data["result"]
