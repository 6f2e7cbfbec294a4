"""The help: its examples exist, and every command that shows data has `--json`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from conductor.cli.command_line import app

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


@pytest.mark.parametrize("group", ["", "workflow", "task", "schedule", "secret"])
def test_the_help_fits_80_columns_has_whole_sentences_and_lists_every_command_u2_5(group: str, cli: Any) -> None:
    ran = cli(*group.split(), "--help")
    lines = ran.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert not any(line.endswith("...") for line in lines[1:])
    above = f"{group} ".lstrip()
    names = {name.removeprefix(above).partition(" ")[0] for name in COMMANDS if name.startswith(above)}
    listed = [line.split()[0] for line in lines if line.startswith("  ") and line.split()[0] in names]
    assert sorted(listed) == sorted(names)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_placeholders_are_words_and_not_types_of_python_u2_5(name: str, cli: Any) -> None:
    text = cli(*name.split(), "--help").out.partition("Examples:")[0]
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"<(int|str|float|list|file)|range>|\{[A-Z_]+\}|INTEGER", text)


def test_a_wrong_sub_command_names_the_right_one_and_the_help_of_its_group_u2_14(cli: Any) -> None:
    ran = cli("schedule", "romove")
    assert (ran.status, ran.err.count("\n")) == (2, 1)
    assert "Did you mean 'remove'? (see conductor-worker schedule --help)" in ran.err
