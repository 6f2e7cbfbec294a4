"""Fills the generated parts of the reference from the code: `python docs/generate.py`.

A page holds them between `<!-- generated: name -->` and `<!-- end -->`; everything else is written by hand.
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
    """Every event: when it is published, and its fields."""
    from conductor.client.event.task_runner_events import EVENT_TYPES, handler_name

    for event in EVENT_TYPES:
        yield f"### {event.__name__}"
        yield f"{_sentence(event)} Listener method: `{handler_name(event)}`."
        yield "\n".join(f"- `{field.name}`: {_type(field.type)}" for field in dataclasses.fields(event))


def metrics() -> Iterator[str]:
    """Every metric, its kind and its labels."""
    from conductor.client.telemetry.worker_metrics import METRICS

    yield _metrics(METRICS)


def canonical_metrics() -> Iterator[str]:
    """Those of workers, under the names of all SDKs."""
    from conductor.client.telemetry.worker_metrics import CANONICAL

    yield _metrics([one.metric for one in CANONICAL])


def coordinator_metrics() -> Iterator[str]:
    """The same of the coordinator."""
    from conductor.coordinator.server_metrics import METRICS

    yield _metrics(METRICS)


def _metrics(table: Any) -> str:
    rows = [[f"`{metric.name}`", metric.kind.name.lower(), _code_list(metric.labels), metric.text] for metric in table]
    return _table(["metric", "kind", "labels", "what it counts"], rows)


def connection() -> Iterator[str]:
    """Every variable of a Configuration."""
    from conductor.client.configuration.connection_options import CONNECTION_OPTIONS

    rows = [[f"`{row.variable}`", row.help, _default(row), _takes(row)] for row in CONNECTION_OPTIONS.values()]
    yield _table(["variable", "what it is", "default", "takes"], rows)


def variables() -> Iterator[str]:
    """The variables that set one option of one worker, the strongest first."""
    from conductor.client.configuration.option import list_variables
    from conductor.client.worker.worker_config import OPTIONS

    found = enumerate(list_variables(OPTIONS["thread_count"], "process_order"), 1)
    yield "\n".join(f"{i}. `{variable}`" for i, variable in found)


def worker_options() -> Iterator[str]:
    """Every option of one worker."""
    from conductor.client.worker.worker_config import WorkerOptions

    yield _options(WorkerOptions)


def process_options() -> Iterator[str]:
    """Every option of a whole process."""
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
            notes.append(f"Not an argument in code: `CONDUCTOR_WORKER_{row.name.upper()}`.")
        elif row.name not in arguments:
            notes.append("Not an argument of `@worker_task`.")
        rows.append([f"`{row.name}`", _takes(row), _default(row) or "none", " ".join(notes)])
    return _table(["option", "takes", "default", ""], rows)


def _commands(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """The commands of a group and of the groups inside, by all their words."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{above}{name} ")
        else:
            yield above + name, command


def commands() -> Iterator[str]:
    """Every command and its options. (Not its help text: how that looks depends on the release of typer.)"""
    from typer.main import get_command

    from conductor.cli.main import PROGRAM, app

    for name, command in _commands(get_command(app)):
        arguments = " ".join(
            p.metavar + "..." * (p.nargs == -1) for p in command.params if p.param_type_name == "argument"
        )
        yield f"## {name}"
        yield f"`{PROGRAM} {name} {arguments}`".replace(" `", "`") + f": {_sentence(command.callback)}"
        rows = [_option_row(p) for p in command.params if p.param_type_name == "option"]
        if rows:
            yield _table(["option", "", "default"], rows)
        examples = getattr(command.callback, "examples", ())
        if examples:
            yield "\n".join(["```sh", *(f"{PROGRAM} {line}" for line in examples), "```"])


def _option_row(option: Any) -> list[str]:
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    text, _, default = (option.help or "").partition(" (default: ")
    shown = default.rstrip(")") or ("" if option.default in (None, False) else f"`{option.default}`")
    return [names, text, shown]


def routes() -> Iterator[str]:
    """Every route of the coordinator."""
    from conductor.coordinator.http.routes import ROUTES

    rows = [[route.method, f"`{route.path}`", _about_route(route.handler.__doc__)] for route in ROUTES]
    yield _table(["method", "path", ""], rows)


#: Name of a generated part to what makes it.
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


def filled(text: str) -> str:
    """The page with its generated parts as they are now."""
    return _PART.sub(lambda found: "\n\n".join([found[1].rstrip(), *PARTS[found[2]](), found[3]]), text)


def main() -> None:
    """Rewrite what has changed."""
    for page in sorted(REFERENCE.glob("*.md")):
        before = page.read_text()
        after = filled(before)
        if after != before:
            page.write_text(after)
            sys.stdout.write(f"wrote {page}\n")


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _sentence(thing: object) -> str:
    return " ".join((thing.__doc__ or "").split())


def _type(annotation: object) -> str:
    return f"`{annotation}`" if isinstance(annotation, str) else f"`{getattr(annotation, '__name__', annotation)}`"


def _code_list(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _default(row: Any) -> str:
    return row.default_text or ("" if row.default is None else f"`{row.default}`")


def _takes(row: Any) -> str:
    return "a boolean" if row.kind is bool else row.allowed


def _about_route(text: str | None) -> str:
    """A handler's docstring begins with the route itself; the table has that already."""
    said = " ".join((text or "").split())
    about = re.sub(r"^[A-Z]+ /\S*?[.,:]( |$)", "", said).strip()
    return about[:1].upper() + about[1:]


if __name__ == "__main__":
    main()
