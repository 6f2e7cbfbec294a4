"""Writes the generated tables of the reference from the code: `python docs/generate.py`.

Generated parts are between `<!-- generated: name -->` and `<!-- end -->`. The rest of a page is written by hand.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

REFERENCE = Path(__file__).parent / "reference"
_PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def events() -> Iterator[str]:
    """Yield each event with its description and fields."""
    from conductor.client.event.task_runner_events import EVENT_TYPES, handler_name

    for event in EVENT_TYPES:
        yield f"### {event.__name__}"
        summary, attributes = _split_docstring(event)
        yield f"{summary} Listener method: `{handler_name(event)}`."
        yield "\n".join(
            f"- `{field.name}`: {_type(field.type)}{attributes.get(field.name, '')}"
            for field in dataclasses.fields(event)
        )


def metrics() -> Iterator[str]:
    """Yield the table of the workers' metrics."""
    from conductor.client.telemetry.worker_metrics import METRICS

    yield _metrics(METRICS)


def canonical_metrics() -> Iterator[str]:
    """Yield the table of the workers' metrics under the names that all SDKs share."""
    from conductor.client.telemetry.worker_metrics import CANONICAL

    yield _metrics([one.metric for one in CANONICAL])


def coordinator_metrics() -> Iterator[str]:
    """Yield the table of the coordinator's metrics."""
    from conductor.coordinator.server_metrics import METRICS

    yield _metrics(METRICS)


def _metrics(table: Any) -> str:
    rows = [[f"`{metric.name}`", metric.kind.name.lower(), _code_list(metric.labels), metric.text] for metric in table]
    return _table(["Metric", "Kind", "Labels", "Meaning"], rows)


def connection() -> Iterator[str]:
    """Yield the table of the connection variables."""
    from conductor.client.configuration.connection_options import CONNECTION_OPTIONS

    rows = [[f"`{row.variable}`", row.help, _default(row), _takes(row)] for row in CONNECTION_OPTIONS.values()]
    yield _table(["Variable", "Meaning", "Default", "Values"], rows)


def variables() -> Iterator[str]:
    """Yield the variables of one option of one worker, the strongest first."""
    from conductor.client.configuration.option import list_variables
    from conductor.client.worker.worker_config import OPTIONS

    found = enumerate(list_variables(OPTIONS["thread_count"], "process_order"), 1)
    yield "\n".join(f"{i}. `{variable}`" for i, variable in found)


def worker_options() -> Iterator[str]:
    """Yield the table of the options of one worker."""
    from conductor.client.worker.worker_config import WorkerOptions

    yield _options(WorkerOptions)


def process_options() -> Iterator[str]:
    """Yield the table of the options of a process."""
    from conductor.client.worker.worker_config import ProcessOptions

    yield _options(ProcessOptions)


def _options(table: type) -> str:
    from conductor.client.configuration.option import list_options
    from conductor.client.worker.worker_task import worker_task

    arguments = inspect.signature(worker_task).parameters
    rows = []
    for row in list_options(table).values():
        notes = [row.help]
        if row.aliases:
            notes.append(f"Also spelled {_code_list(row.aliases)}.")
        if not row.per_worker:
            notes.append(f"Set this option with `CONDUCTOR_WORKER_{row.name.upper()}`; it is not an argument in code.")
        elif row.name not in arguments:
            notes.append("Not an argument of `@worker_task`.")
        rows.append([f"`{row.name}`", _takes(row), _default(row) or "none", " ".join(notes)])
    return _table(["Option", "Values", "Default", "Meaning"], rows)


def _commands(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the commands of a group and its subgroups, each with its full name."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{above}{name} ")
        else:
            yield above + name, command


def commands() -> Iterator[str]:
    """Yield each command with its options. The help text is left out: its layout depends on the release of typer."""
    from typer.main import get_command

    from conductor.cli.command_line import PROGRAM, app

    for name, command in _commands(get_command(app)):
        arguments = " ".join(
            p.metavar + "..." * (p.nargs == -1) for p in command.params if p.param_type_name == "argument"
        )
        yield f"## {name}"
        yield f"`{PROGRAM} {name} {arguments}`".replace(" `", "`") + f": {_sentence(command.callback)}"
        rows = [_option_row(p) for p in command.params if p.param_type_name == "option"]
        if rows:
            yield _table(["Option", "Meaning", "Default"], rows)
        examples = getattr(command.callback, "examples", ())
        if examples:
            yield "\n".join(["```sh", *(f"{PROGRAM} {line}" for line in examples), "```"])


def _option_row(option: Any) -> list[str]:
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    text, _, default = (option.help or "").partition(" (default: ")
    shown = default.rstrip(")") or ("" if option.default in (None, False) else f"`{option.default}`")
    return [names, text, shown]


def routes() -> Iterator[str]:
    """Yield the table of the coordinator's routes."""
    from conductor.coordinator.http.routes import ROUTES
    from conductor.coordinator.keys.roles import Access

    def roles(access: Access) -> str:
        shown = {Access.PUBLIC: "none needed", Access.ANY_KEY: "any"}
        return shown.get(access) or ", ".join(str(role) for role in access.value)

    rows = [
        [route.method, f"`{route.path}`", roles(route.access), _about_route(route.handler.__doc__)] for route in ROUTES
    ]
    yield _table(["Method", "Path", "Roles", "Effect"], rows)


#: Name of a generated part to the function that makes it.
PARTS: dict[str, Callable[[], Iterator[str]]] = {
    "events": events,
    "metrics": metrics,
    "canonical_metrics": canonical_metrics,
    "coordinator_metrics": coordinator_metrics,
    "connection": connection,
    "variables": variables,
    "worker_options": worker_options,
    "process_options": process_options,
    "commands": commands,
    "routes": routes,
}


def fill_generated_parts(text: str) -> str:
    """Return the page with current generated parts."""
    return _PART.sub(lambda found: "\n\n".join([found[1].rstrip(), *PARTS[found[2]](), found[3]]), text)


def main() -> None:
    """Rewrite the pages that have changed."""
    for page in sorted(REFERENCE.glob("*.md")):
        before = page.read_text()
        after = fill_generated_parts(before)
        if after != before:
            page.write_text(after)
            sys.stdout.write(f"wrote {page}\n")


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _sentence(thing: object) -> str:
    return " ".join((thing.__doc__ or "").split())


def _split_docstring(thing: object) -> tuple[str, dict[str, str]]:
    """Return the docstring before "Attributes:", and the descriptions of the attributes by name."""
    text, _, section = inspect.cleandoc(thing.__doc__ or "").partition("\nAttributes:\n")
    entries = re.findall(r"^ +(\w+): (.+(?:\n {8,}.+)*)", section, re.MULTILINE)
    return " ".join(text.split()), {name: f". {' '.join(about.split())}" for name, about in entries}


def _type(annotation: object) -> str:
    return f"`{annotation}`" if isinstance(annotation, str) else f"`{getattr(annotation, '__name__', annotation)}`"


def _code_list(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _default(row: Any) -> str:
    return row.default_text or ("" if row.default is None else f"`{row.default}`")


def _takes(row: Any) -> str:
    return "a boolean" if row.kind is bool else row.allowed


def _about_route(text: str | None) -> str:
    """Return a handler's docstring without the route at its beginning, which the table already has."""
    docstring = " ".join((text or "").split())
    about = re.sub(r"^[A-Z]+ /\S*?[.,:]( |$)", "", docstring).strip()
    return about[:1].upper() + about[1:]


if __name__ == "__main__":
    main()
