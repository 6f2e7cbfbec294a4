"""The tests of `test_coordinator_schemathesis` with many more requests and the library's systematic ones: boundaries,
wrong types, missing parts.

In a file of its own, because the library draws them while tests are collected (`conftest.py` says when it is not read).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.test_coordinator_schemathesis import Server, document, drawn, server

__all__ = ["server"]  # a fixture


@pytest.mark.slow
@pytest.mark.timeout(900)
@(many := document(coverage=True)).parametrize()
@drawn(100)
def test_each_operation_answers_many_generated_requests(case: Any, server: Server) -> None:  # noqa: F811
    server.ask(case)
