"""Warnings about environment variables that look like options but set nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from conductor.client.configuration.connection_options import CONNECTION_OPTIONS
from conductor.client.configuration.option import (
    Option,
    find_nearest,
    list_global_variables,
    list_variables,
    list_worker_variables,
)

_LOOKS_LIKE_OURS = re.compile(r"conductor(?:[._-]|[._-]?workers?[._-])", re.IGNORECASE)
#: Variables of `conductor-worker serve`. Workers may run in the same environment, so these get no warning.
COORDINATOR_VARIABLES = frozenset(
    {
        "CONDUCTOR_ALLOWED_HOSTS",
        "CONDUCTOR_ALLOWED_ORIGINS",
        "CONDUCTOR_HTTP_TASK_HOSTS",
        "CONDUCTOR_LITESTREAM",
        "CONDUCTOR_REPLICATE",
        "CONDUCTOR_SECRETS_KEY",
        "CONDUCTOR_SERVER_TLS_CERT_FILE",
        "CONDUCTOR_SERVER_TLS_KEY_FILE",
    }
)
METRICS_VARIABLES = frozenset({"CONDUCTOR_METRICS_BUCKETS"})
#: Prefixes of variables that workflows use as `${workflow.secrets.X}` and `${workflow.env.X}`.
_WORKFLOW_PREFIXES = ("CONDUCTOR_SECRET_", "CONDUCTOR_ENV_")
# Matches the end of variables that Kubernetes sets in every container for a service such as `conductor-server`.
_KUBERNETES_NAME = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)?)$")


def describe_unknown_variables(
    env: Iterable[str], options: Iterable[Option], worker_names: Iterable[str]
) -> Iterator[str]:
    """Return a warning for each variable that looks like an option but sets nothing, with the most similar name."""
    rows, names = list(options), list(worker_names)
    known = {row.variable for row in CONNECTION_OPTIONS.values()} | COORDINATOR_VARIABLES | METRICS_VARIABLES
    known |= {variable for row in rows for variable in list_global_variables(row)}
    known |= {variable for row in rows for name in names for variable in list_variables(row, name)}
    replacements = _find_replacements(rows, names)
    for variable in sorted(env):
        if variable.startswith(_WORKFLOW_PREFIXES):
            continue
        if variable in known or not _LOOKS_LIKE_OURS.match(variable) or _KUBERNETES_NAME.search(variable):
            continue
        meant = replacements.get(variable) or _find_nearest(variable, known)
        advice = f"did you mean {meant}?" if meant else "no option has a name like it"
        yield f"environment variable {variable} sets nothing: {advice}"


def _find_replacements(rows: Iterable[Option], names: Iterable[str]) -> Mapping[str, str]:
    """Return the correct variable for each variable that would set a process option for a single worker.

    A process option cannot be set per worker. The correct variable sets it for the whole process.
    """
    return {
        variable: f"CONDUCTOR_WORKER_{row.name.upper()}"
        for row in rows
        for name in names
        for variable in list_worker_variables(name, row)
        if not row.per_worker
    }


def _find_nearest(variable: str, known: Iterable[str]) -> str | None:
    """Return the most similar known variable of the same style: `conductor.worker.…` or `CONDUCTOR_WORKER_…`."""
    style = r"conductor\..*" if "." in variable else "[A-Z0-9_]+"
    family = {_fold(name): name for name in known if re.fullmatch(style, name)}
    found = find_nearest(_fold(variable), family)
    return None if found is None else family[found]


def _fold(variable: str) -> str:
    """Return a name for comparisons: without its `CONDUCTOR_WORKER_` prefix, in capitals, with `_` as separator."""
    return re.sub(r"[._-]+", "_", re.sub(r"^CONDUCTOR[._-]?(WORKERS?[._-])?", "", variable.upper()))
