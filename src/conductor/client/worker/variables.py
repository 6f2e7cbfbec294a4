"""The environment variables that set an option: their spellings, and the ones that were meant to be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from conductor.client.worker.option import Option

_LOOKS_LIKE_OURS = re.compile(r"conductor[._-]?workers?[._-]", re.IGNORECASE)
_SIMILARITY = 0.6


def environment_name(worker_name: str) -> str:
    """A worker's name inside an upper-case variable: `process-order` is `PROCESS_ORDER`."""
    return re.sub(r"[^A-Z0-9]", "_", worker_name.upper())


def worker_variables(worker_name: str, option: Option) -> Iterator[str]:
    """The variables that set an option for one worker, first come first served."""
    for spelling in option.spellings:
        yield f"conductor.worker.{worker_name}.{spelling}"
    for spelling in option.spellings:
        yield f"CONDUCTOR_WORKER_{environment_name(worker_name)}_{spelling.upper()}"


def global_variables(option: Option) -> Iterator[str]:
    """The variables that set an option for every worker, first come first served."""
    for pattern in ("conductor.worker.all.{}", "CONDUCTOR_WORKER_ALL_{}", "CONDUCTOR_WORKER_{}", "conductor_worker_{}"):
        upper = pattern.isupper()
        for spelling in option.spellings:
            yield pattern.format(spelling.upper() if upper else spelling)


def variables_of(option: Option, worker_name: str, taken: frozenset[str] = frozenset()) -> Iterator[str]:
    """Every variable that may set the option for this worker, the strongest first.

    `taken` are names that mean something for every worker: one called `idle` must not read
    CONDUCTOR_WORKER_IDLE_POLL_TIMEOUT as its own poll_timeout.
    """
    if option.per_worker:
        yield from (variable for variable in worker_variables(worker_name, option) if variable not in taken)
    yield from global_variables(option)


def unknown_among(env: Mapping[str, str], options: Iterable[Option], worker_names: Iterable[str]) -> Iterator[str]:
    """A warning for each variable that looks like one of ours and sets nothing, with the nearest real name."""
    rows, names = list(options), list(worker_names)
    known = {variable for row in rows for name in ("all", *names) for variable in variables_of(row, name)}
    # A variable of a single worker for an option that has none: the one to use instead is certain.
    instead = {
        variable: f"CONDUCTOR_WORKER_{row.name.upper()}"
        for row in rows
        for name in names
        for variable in worker_variables(name, row)
        if not row.per_worker
    }
    for variable in sorted(env):
        if not _LOOKS_LIKE_OURS.match(variable) or variable in known:
            continue
        meant = instead.get(variable) or _nearest(variable, known)
        advice = f"did you mean {meant}?" if meant else "no option has a name like it"
        yield f"environment variable {variable} sets nothing: {advice}"


def _nearest(variable: str, known: Iterable[str]) -> str | None:
    """The most similar name of the same family, written with dots or in capitals."""
    import difflib  # needed by those who mistyped, not by those who start

    dotted = "." in variable
    family = {_folded(name): name for name in known if ("." in name if dotted else name.isupper())}
    found = difflib.get_close_matches(_folded(variable), family, n=1, cutoff=_SIMILARITY)
    return family[found[0]] if found else None


def _folded(variable: str) -> str:
    """The part that tells variables apart, whatever the case and the separators."""
    return re.sub(r"[._-]+", "_", _LOOKS_LIKE_OURS.sub("", variable)).upper()
