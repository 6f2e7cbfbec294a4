from __future__ import annotations

from collections.abc import Iterator

import pytest

from conductor.client.worker import registry
from tests.unit.workflow import order_workers as shop


@pytest.fixture(autouse=True)
def workers() -> Iterator[None]:
    """The shop's workers are the decorated ones of the process, whatever other tests have decorated."""
    before = registry.list_workers()
    registry.clear()
    for function in (shop.quote, shop.charge, shop.notify, shop.label, shop.anything, shop.fails):
        worker = KNOWN[function]
        assert worker is not None
        registry.register(worker)
    yield
    registry.clear()
    for worker in before:
        registry.register(worker)


KNOWN = {
    function: registry.find_worker(function)
    for function in (shop.quote, shop.charge, shop.notify, shop.label, shop.anything, shop.fails)
}
