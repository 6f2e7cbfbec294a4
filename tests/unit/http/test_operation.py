"""Operations that are written once, for async and for blocking clients."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.operation import AsyncClient, Operations, SyncClient, endpoint, operation
from tests.unit.http.raw_server import answer


class NumberOperations(Operations):
    only_on = "the newest servers"

    @endpoint("GET", "/numbers/{name}")
    async def get_numbers(self, name: str, limit: int | None = 3) -> list[int]:
        """Return numbers."""

    @operation
    async def add_numbers(self, name: str) -> int:
        """Return the sum of the numbers."""
        return sum(await self.get_numbers(name))

    @endpoint("DELETE", "/numbers")
    async def delete_numbers(self) -> None:
        """Delete all numbers."""


class AsyncNumberClient(NumberOperations, AsyncClient):
    pass


class NumberClient(NumberOperations, SyncClient[AsyncNumberClient]):
    async_class = AsyncNumberClient


@pytest.fixture
async def server(serve: Any) -> Any:
    return await serve(lambda seen: answer(200, [1, 2] if seen.method == "GET" else "gone"))


async def test_an_async_client_awaits_its_operations(server: Any) -> None:
    async with AsyncNumberClient(Configuration(server.url)) as numbers:
        assert await numbers.get_numbers("even") == [1, 2]
        assert await numbers.add_numbers("even") == 3
        await numbers.delete_numbers()
    assert [seen.target for seen in server.requests[:2]] == ["/api/numbers/even?limit=3"] * 2


async def test_a_blocking_client_returns_the_same_results(server: Any) -> None:
    def run() -> tuple[list[int], int]:
        with NumberClient(Configuration(server.url)) as numbers:
            return numbers.get_numbers("even", limit=1), numbers.add_numbers("even")

    assert await asyncio.to_thread(run) == ([1, 2], 3)


def test_only_the_methods_of_the_async_client_are_coroutine_functions() -> None:
    for name in ("get_numbers", "add_numbers"):
        assert inspect.iscoroutinefunction(getattr(AsyncNumberClient, name))
        assert not inspect.iscoroutinefunction(getattr(NumberClient, name))


def test_both_clients_have_the_declared_signature_and_docstring() -> None:
    for client in (AsyncNumberClient, NumberClient):
        method: Any = client.get_numbers
        assert str(inspect.signature(method)) == "(self, name: 'str', limit: 'int | None' = 3) -> 'list[int]'"
        assert method.__doc__ == "Return numbers."


async def test_an_operation_that_returns_none_ignores_the_answer(server: Any) -> None:
    async with AsyncNumberClient(Configuration(server.url)) as numbers:
        result: object = await numbers.delete_numbers()  # type: ignore[func-returns-value]
        assert result is None


async def test_a_missing_argument_is_a_type_error(server: Any) -> None:
    async with AsyncNumberClient(Configuration(server.url)) as numbers:
        with pytest.raises(TypeError, match="missing a required argument: 'name'"):
            await numbers.get_numbers()  # type: ignore[call-arg]


async def test_an_override_in_the_async_client_is_called_by_the_blocking_one(server: Any) -> None:
    class Doubled(AsyncNumberClient):
        async def add_numbers(self, name: str) -> int:
            return 2 * sum(await self.get_numbers(name))

    numbers = NumberClient(Configuration(server.url))
    numbers.asynchronous = Doubled(numbers.asynchronous.api_client)
    assert await asyncio.to_thread(numbers.add_numbers, "even") == 6
    await asyncio.to_thread(numbers.close)
