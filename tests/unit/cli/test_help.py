"""The help: its examples exist, and every command that shows data has `--json`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from conductor.cli.main import app

#: Beside those of the groups, without one that writes JSON anyway.
LOOKING_ALONE = {"queues", "workers", "purge"}
WRITES_JSON = {"workflow export"}


def every_command(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from every_command(command, f"{above}{name} ")
        else:
            yield above + name, command


COMMANDS = dict(every_command(get_command(app)))
LOOKING = sorted({name for name in COMMANDS if " " in name or name in LOOKING_ALONE} - WRITES_JSON)


@pytest.mark.parametrize("name", LOOKING)
def test_a_command_that_looks_or_acts_speaks_json_and_has_examples(name: str) -> None:
    flags = {flag for param in COMMANDS[name].params for flag in param.opts}
    assert "--json" in flags
    assert COMMANDS[name].callback.examples


@pytest.mark.parametrize("name", [name for name in COMMANDS if hasattr(COMMANDS[name].callback, "examples")])
def test_examples_name_options_that_exist(name: str, cli: Any) -> None:
    flags = {flag for param in COMMANDS[name].params for flag in [*param.opts, *param.secondary_opts]}
    for line in COMMANDS[name].callback.examples:
        assert name in line
        own = line.partition(name)[2].split(" | ")[0].split(" && ")[0]
        assert [word for word in own.split() if word.startswith("--") and word not in flags] == []
    ran = cli(*name.split(), "--help")
    assert f"    conductor-worker {COMMANDS[name].callback.examples[0]}\n" in ran.out, "as it was written"
