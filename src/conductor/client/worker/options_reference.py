"""The reference page of the options, made from the table: `python -m conductor.client.worker.options_reference`."""

from __future__ import annotations

import sys

from conductor.client.worker.option import Option
from conductor.client.worker.variables import environment_name, global_variables, worker_variables
from conductor.client.worker.worker_config import OPTIONS

_HEAD = """\
# Options of a worker

<!-- Generated: python -m conductor.client.worker.options_reference > docs/reference/options.md -->

An option takes its value from the first of these that has one:

1. the worker's own environment variable,
2. the environment variable for all workers,
3. code: `@worker_task(...)`, `Worker(...)`, or an attribute of a class-based worker,
4. the default below.

A variable that is set but empty counts as not set. A value that is not allowed stops the start with one line that names
the variable, the value and what is allowed. A variable that looks like one of these and is none gets a warning with the
nearest real name. Booleans are `true`, `1`, `yes`, `false`, `0` and `no`, in any case.

## Environment variables

For the worker `{name}` and the option `{option}`, the strongest first:

{spellings}

In upper-case variables a worker's name is written with `_` for everything that is neither letter nor digit.
Most shells cannot export the names with dots; they are meant for `docker run --env`, Kubernetes and the like.
Options of the whole process have no variable of a single worker.
"""


def options_markdown() -> str:
    """The page."""
    example = OPTIONS["thread_count"]
    variables = [*worker_variables("process_order", example), *global_variables(example)]
    spellings = "\n".join(f"{i}. `{variable}`" for i, variable in enumerate(variables, 1))
    head = _HEAD.format(name="process_order", option=example.name, spellings=spellings)
    per_worker = [row for row in OPTIONS.values() if row.per_worker]
    per_process = [row for row in OPTIONS.values() if not row.per_worker]
    return "\n".join([head, _table("Of one worker", per_worker), _table("Of the whole process", per_process)])


def _table(title: str, rows: list[Option]) -> str:
    lines = [f"## {title}", "", "| option | takes | default | |", "|---|---|---|---|"]
    return "\n".join([*lines, *map(_row, rows), ""])


def _row(row: Option) -> str:
    takes = "a boolean" if row.kind is bool else row.allowed
    default = row.default_text or ("none" if row.default is None else f"`{row.default}`")
    notes = [row.help]
    if row.aliases:
        notes.append("Also spelled " + ", ".join(f"`{alias}`" for alias in row.aliases) + ".")
    if "worker" in row.scopes and "decorator" not in row.scopes:
        notes.append("Not an argument of `@worker_task`.")
    elif "worker" not in row.scopes:
        notes.append(f"Not an argument in code: `CONDUCTOR_WORKER_{environment_name(row.name)}`.")
    return f"| `{row.name}` | {takes} | {default} | {' '.join(notes)} |"


if __name__ == "__main__":
    sys.stdout.write(options_markdown())
