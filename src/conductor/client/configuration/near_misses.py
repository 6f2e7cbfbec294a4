"""Environment variables that were meant to set an option, and set nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from conductor.client.configuration.connection_options import CONNECTION_OPTIONS
from conductor.client.configuration.option import Option, global_variables, nearest, variables_of, worker_variables

_LOOKS_LIKE_OURS = re.compile(r"conductor(?:[._-]|[._-]?workers?[._-])", re.IGNORECASE)
#: What `conductor-worker serve` reads; it may be set where workers run, too.
OF_THE_COORDINATOR = frozenset(
    {"CONDUCTOR_ALLOWED_HOSTS", "CONDUCTOR_ALLOWED_ORIGINS", "CONDUCTOR_HTTP_TASK_HOSTS", "CONDUCTOR_SECRETS_KEY"}
)
#: What metrics read.
OF_METRICS = frozenset({"CONDUCTOR_METRICS_BUCKETS"})
#: What workflows name as `${workflow.secrets.X}` and `${workflow.env.X}`, on any server.
_OF_WORKFLOWS = ("CONDUCTOR_SECRET_", "CONDUCTOR_ENV_")
# What Kubernetes tells every container about a service called `conductor` or `conductor-server`.
_OF_KUBERNETES = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)?)$")


def unknown_among(env: Iterable[str], options: Iterable[Option], worker_names: Iterable[str]) -> Iterator[str]:
    """A warning for each variable that looks like one of ours and sets nothing, with the nearest real name."""
    rows, names = list(options), list(worker_names)
    known = {row.variable for row in CONNECTION_OPTIONS.values()} | OF_THE_COORDINATOR | OF_METRICS
    known |= {variable for row in rows for variable in global_variables(row)}
    known |= {variable for row in rows for name in names for variable in variables_of(row, name)}
    instead = _of_one_worker_only(rows, names)
    for variable in sorted(env):
        if variable.startswith(_OF_WORKFLOWS):
            continue
        if variable in known or not _LOOKS_LIKE_OURS.match(variable) or _OF_KUBERNETES.search(variable):
            continue
        meant = instead.get(variable) or _nearest(variable, known)
        advice = f"did you mean {meant}?" if meant else "no option has a name like it"
        yield f"environment variable {variable} sets nothing: {advice}"


def _of_one_worker_only(rows: Iterable[Option], names: Iterable[str]) -> Mapping[str, str]:
    """A variable of a single worker for an option of the whole process: the one to use instead is certain."""
    return {
        variable: f"CONDUCTOR_WORKER_{row.name.upper()}"
        for row in rows
        for name in names
        for variable in worker_variables(name, row)
        if not row.per_worker
    }


def _nearest(variable: str, known: Iterable[str]) -> str | None:
    """The most similar name of the same family, written with dots or in capitals."""
    written = r"conductor\..*" if "." in variable else "[A-Z0-9_]+"
    family = {_folded(name): name for name in known if re.fullmatch(written, name)}
    found = nearest(_folded(variable), family)
    return None if found is None else family[found]


def _folded(variable: str) -> str:
    """The part that tells variables apart, whatever the case and the separators."""
    return re.sub(r"[._-]+", "_", re.sub(r"^CONDUCTOR[._-]?(WORKERS?[._-])?", "", variable.upper()))
