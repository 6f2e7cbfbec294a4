"""Prints the warnings of a coordinator about stored definitions and schedules. A Conductor server has none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import typer

from conductor.cli.support import call_server
from conductor.cli.workflow_details import read_view
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.endpoint import quote_segment
from conductor.common.text import escape


def print_definition_warnings(url: str | None, definitions: Iterable[tuple[str, int]]) -> list[str]:
    """Print the warnings about stored workflow definitions, each given by name and version, and return them."""

    async def read(api: AsyncApiClient) -> list[str]:
        return [warning for name, version in definitions for warning in await read_warnings(api, name, version)]

    return _print(call_server(url, read))


async def read_warnings(api: AsyncApiClient, name: str, version: int) -> list[str]:
    """Return the warnings about a stored workflow definition."""
    path = f"/view/definition/{quote_segment(name)}/warnings"
    answer = await read_view(api, path, dict[str, Any], version=version)
    return [f"{name}: {warning}" for warning in (answer or {}).get("warnings", ())]


def print_schedule_warnings(url: str | None, name: str) -> list[str]:
    """Print the warnings about a stored schedule, and return them."""

    async def read(api: AsyncApiClient) -> list[str]:
        answer = await read_view(api, "/view/schedules/warnings", dict[str, Any])
        return list((answer or {}).get("warnings", {}).get(name, ()))

    return _print(call_server(url, read))


def _print(warnings: Sequence[str]) -> list[str]:
    for warning in warnings:
        typer.echo(escape(f"warning: {warning}"), err=True)
    return list(warnings)
