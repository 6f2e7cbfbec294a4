"""The checks of `doctor` on a server: its connection, its health, its queues and failed workflows."""

from __future__ import annotations

import asyncio
import re
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from conductor.cli import checks_machine
from conductor.cli.finding import Finding, broken, ok, warning
from conductor.cli.queue_state import QueueState, read_queues
from conductor.cli.server_kind import ServerKind, describe_error, identify_server, open_client
from conductor.cli.stored_warnings import read_warnings
from conductor.cli.support import web_ui_address
from conductor.cli.workflow_details import read_view
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.async_rest import AuthorizationException, ConductorError, NotFoundException
from conductor.client.metadata_client import AsyncMetadataClient
from conductor.common.machine import is_loopback
from conductor.protocol.why_waiting import MORE_WORKERS, START_AGAIN, UNPOLLED_MS, format_duration
from conductor.version import __version__

#: `doctor` lists at most this many faults of one kind, and prints the number of the remaining ones.
MAX_LISTED = 10
#: `doctor` reads the warnings about at most this many definitions, and for at most this time.
MAX_DEFINITIONS_CHECKED, WARNINGS_WITHIN_S = 100, 1.0
#: If the clocks differ by more than this, times in logs and in the web UI are misleading.
MAX_SKEW_MS = 5000
#: `doctor` warns above these limits: used share of the disk, delay of the replica, share of time the writer is busy.
FULL_DISK_SHARE, LATE_REPLICA_S, BUSY_WRITER_SHARE = 0.8, 30.0, 0.8
#: The time for which `doctor` measures the load of the writer thread.
MEASURED_S = 0.5
#: `doctor` lists the workflows that failed within this time.
FAILED_WITHIN_MS = 3_600_000
#: The oldest supported Conductor version; older servers have different routes for workers.
OLDEST_CONDUCTOR = (3, 0)
#: Matches the parts of a failure reason that differ between failures with the same cause.
_NUMBERS_AND_IDS = re.compile(r"[0-9a-f-]{36}|\d+")
_TLS = re.compile(r"certificate|tls|ssl|UnknownIssuer|InvalidContentType", re.IGNORECASE)


async def check_server(configuration: Configuration, found: list[Finding]) -> None:
    """Check the connection, and then everything that the server reports. Add the results to `found`."""
    try:
        server = await identify_server(configuration)
    except ConductorError as error:
        found += await _check_unhealthy(configuration) or [unreachable(configuration, error)]
        return
    settings = configuration.authentication_settings
    accepted = f"accepts the key '{settings.key_id}'" if settings and configuration.AUTH_TOKEN else "requires no key"
    found.append(ok(f"{configuration.shown_host} answers polls and {accepted}: {server}"))
    if server.is_coordinator:
        found.append(ok(f"its web UI is at {web_ui_address(configuration.shown_host)}"))
    async with open_client(configuration) as api:
        async for finding in _check_reports(server, api, configuration):
            found.append(finding)


def silent_server(configuration: Configuration, within_s: float, *, is_known: bool) -> Finding:
    """Return the finding for a server that has not answered in time."""
    what = "has not answered all requests of this check" if is_known else "has not answered"
    line = f"{configuration.shown_host} {what} within {within_s:g} s"
    remedy = "Look at its log and at the load of its machine, and restart it if it does not react."
    return warning("server-slow", line, remedy) if is_known else broken("unreachable", line, remedy)


async def _check_unhealthy(configuration: Configuration) -> list[Finding]:
    """Return the faults of a coordinator that rejects polls because it cannot write. Its read routes still answer."""
    try:
        async with open_client(configuration) as api:
            overview = await api.call_for(dict[str, Any], "GET", "/view/overview")
            server = await api.call_for(dict[str, Any], "GET", "/view/server")
    except ConductorError:
        return []
    found = [*unhealthy(overview)]
    return [*found, *disk_of_coordinator(configuration, server)] if found else []


def unreachable(configuration: Configuration, error: ConductorError) -> Finding:
    """Return the finding for a failed poll.

    The cause is the key, the URL's path, the certificate, or a missing server.
    """
    settings, host, reason = configuration.authentication_settings, configuration.shown_host, describe_error(error)
    if isinstance(error, AuthorizationException):
        remedy = "Set CONDUCTOR_AUTH_KEY and CONDUCTOR_AUTH_SECRET."
        if settings:
            return broken("key-refused", f"{host} rejects the key '{settings.key_id}': {reason}", remedy)
        return broken("key-missing", f"{host} requires a key, and none is set: {reason}", remedy)
    if isinstance(error, NotFoundException):
        return broken(
            "wrong-path",
            f"{host} answers, but not as Conductor does: {reason}",
            "Is the path of the URL right? Most servers have their routes below /api.",
        )
    if "://" in host and _TLS.search(reason):
        return broken(
            "tls",
            f"{host} cannot be used: {reason}",
            "Set CONDUCTOR_TLS_CA_FILE to the file of its certificate authority, or use http:// without TLS.",
        )
    return broken(
        "unreachable",
        f"{host} cannot be used: {reason}",
        "Start a server with `conductor-worker serve`, or set CONDUCTOR_SERVER_URL.",
    )


async def _check_reports(
    server: ServerKind, api: AsyncApiClient, configuration: Configuration
) -> AsyncIterator[Finding]:
    for finding in old_version(server):
        yield finding
    try:
        overview: dict[str, Any] | None = await api.call_for(dict[str, Any], "GET", "/view/overview")
    except ConductorError:  # a Conductor server or an older coordinator does not have this route
        overview = None
    for finding in clock_skew(await _server_time_ms(api, overview)):
        yield finding
    if overview is None:
        for finding in await check_queues(configuration):
            yield finding
        return
    for finding in unhealthy(overview):
        yield finding
    server_state = await api.call_for(dict[str, Any], "GET", "/view/server")
    await asyncio.sleep(MEASURED_S)
    later = await api.call_for(dict[str, Any], "GET", "/view/server")
    for finding in [
        *disk_of_coordinator(configuration, server_state),
        *disk_share(server_state),
        *replica(server_state),
        *secrets_without_key(server_state),
        *load_of_writer(server_state, later),
    ]:
        yield finding
    queues = (await api.call_for(dict[str, Any], "GET", "/view/queues"))["queues"]
    for finding in [*waiting_in_vain(queues), *held_back(queues), *busy_workers(queues, overview["nowMs"])]:
        yield finding
    for finding in fast_loops(overview):
        yield finding
    lately = await api.call_for(dict[str, Any], "GET", "/view/workflows?status=FAILED,TIMED_OUT&size=50")
    for finding in failed_workflows(lately):
        yield finding
    async for finding in suspect_definitions(api):
        yield finding


def old_version(server: ServerKind) -> Iterator[Finding]:
    """Check for a coordinator that is older than the workers, or a Conductor server that is too old."""
    version = _numbers(server.version)
    if version is None:
        return
    if server.kind == "a coordinator" and version < (_numbers(__version__) or version):
        yield warning(
            "server-too-old",
            f"the coordinator is version {server.version}, older than version {__version__} on this machine",
            "Install the same version where the coordinator runs.",
        )
    if server.kind != "a coordinator" and version < OLDEST_CONDUCTOR:
        yield warning("server-too-old", f"the server is version {server.version}", "Use Conductor 3 or newer.")


def _numbers(version: str) -> tuple[int, ...] | None:
    found = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", version)
    return tuple(int(number or 0) for number in found.groups()) if found else None


async def _server_time_ms(api: AsyncApiClient, overview: dict[str, Any] | None) -> float | None:
    if overview is not None:
        return float(overview["nowMs"])
    try:
        date = (await api.call("GET", "/version")).headers.get("date")
        return parsedate_to_datetime(date).timestamp() * 1000 if date else None
    except (ConductorError, TypeError, ValueError):
        return None


def clock_skew(server_ms: float | None) -> Iterator[Finding]:
    """Check that the server's clock agrees with the local one."""
    skew_ms = 0.0 if server_ms is None else server_ms - time.time() * 1000
    if abs(skew_ms) > MAX_SKEW_MS:
        ahead = "ahead of" if skew_ms > 0 else "behind"
        yield warning(
            "clock-skew",
            f"the server's clock is {format_duration(int(abs(skew_ms)))} {ahead} the clock of this machine",
            "Synchronize both with NTP; until then, their times cannot be compared.",
        )


def unhealthy(overview: dict[str, Any]) -> Iterator[Finding]:
    """Check that the coordinator can write its database."""
    problem = str(overview.get("health"))
    if "newer coordinator" in problem:
        yield broken(
            "superseded",
            f"the coordinator was superseded: {problem}",
            "Set CONDUCTOR_SERVER_URL to the newer coordinator.",
        )
    elif not overview.get("healthy", True):
        yield broken(
            "database-not-writable",
            f"the coordinator cannot write its database: {overview.get('health')}",
            "Check its disk and the permissions of its file; it continues as soon as it can write again.",
        )


def disk_of_coordinator(configuration: Configuration, server: dict[str, Any]) -> Iterator[Finding]:
    """Check the free space of the coordinator's disk, if it runs on this machine."""
    database = Path(str(server.get("database") or ""))
    if not is_loopback(urlsplit(configuration.host).hostname or "") or not database.is_file():
        return
    free = shutil.disk_usage(database.parent).free
    if free < checks_machine.MIN_FREE_BYTES:
        yield warning(
            "coordinator-disk-full",
            f"the disk of the coordinator's file has {free >> 20} MB left ({database})",
            "Free some space; --keep-days and --keep-count of `conductor-worker serve` remove finished workflows.",
        )


def disk_share(server: dict[str, Any]) -> Iterator[Finding]:
    """Check how full the coordinator's disk is, by the figures that the coordinator reports."""
    total, free, reserve = (server.get(name) or 0 for name in ("diskTotalBytes", "diskFreeBytes", "diskReserveBytes"))
    if not total:
        return
    remedy = "`conductor-worker purge --older-than 7d --vacuum` removes finished workflows; or enlarge the disk."
    if free < reserve:
        yield broken(
            "starts-refused",
            f"the coordinator refuses starts: {free >> 20} MB of its disk are free, {reserve >> 20} MB are reserved",
            remedy,
        )
    elif free < total * (1 - FULL_DISK_SHARE):
        yield warning("disk-nearly-full", f"the coordinator's disk is {100 - 100 * free // total} % full", remedy)


def replica(server: dict[str, Any]) -> Iterator[Finding]:
    """Check that the replica of the database is complete."""
    state = server.get("replication")
    if state is None:
        return
    lag = format_duration(int(state["lagS"] * 1000))
    if state["lastError"] or not state["running"] or state["lagS"] > LATE_REPLICA_S:
        reason = state["lastError"] or ("no error is known" if state["running"] else "Litestream is not running")
        yield warning(
            "replica-late",
            f"the replica at {state['url']} is {lag} behind: {reason}",
            "If the machine is lost now, the changes of this time are lost. Check the storage and its credentials.",
        )
    else:
        yield ok(f"the replica at {state['url']} is complete, except for the last {lag}")


def secrets_without_key(server: dict[str, Any]) -> Iterator[Finding]:
    """Check that the coordinator can decrypt its stored secrets."""
    count = server.get("unreadableSecrets") or 0
    if count:
        yield broken(
            "secrets-unreadable",
            f"the coordinator cannot read {count} stored secret{'s' * (count > 1)}, so workers receive null for them",
            "Start the coordinator with the CONDUCTOR_SECRETS_KEY that encrypted them.",
        )


def load_of_writer(server: dict[str, Any], later: dict[str, Any]) -> Iterator[Finding]:
    """Measure how busy the writer thread is. All changes pass through this one thread, so it limits the throughput."""
    if "writerBusyS" not in server or later["nowMs"] <= server["nowMs"] or server["pid"] != later["pid"]:
        return
    busy_s, commits = later["writerBusyS"] - server["writerBusyS"], later["commits"] - server["commits"]
    share = busy_s / (later["nowMs"] - server["nowMs"]) * 1000
    log_mb = (later.get("logBytes") or 0) >> 20
    measured = f"the writer is busy for {share:.0%} of the time, {busy_s / max(1, commits) * 1000:.1f} ms per commit"
    if share > BUSY_WRITER_SHARE:
        yield warning(
            "writer-busy",
            f"{measured}, and the write-ahead log has {log_mb} MB",
            "See 'When one machine is not enough' in docs/tuning.md.",
        )
    else:
        yield ok(f"{measured}; the write-ahead log has {log_mb} MB")


def waiting_in_vain(queues: list[dict[str, Any]]) -> Iterator[Finding]:
    """Check for queues with waiting tasks that no worker polls, or that workers poll only in another domain."""
    alone = [queue["problem"] for queue in queues if queue.get("problem")]
    for problem in alone[:MAX_LISTED]:
        fault = "domain-mismatch" if problem["kind"] == "domain" else "queue-not-polled"
        yield warning(fault, f"tasks wait: {problem['sentence']}", problem.get("remedy") or "Start a worker.")
    if len(alone) > MAX_LISTED:
        yield _more(len(alone) - MAX_LISTED)
    if queues and not alone:
        yield ok("every queue in which tasks wait is polled")


def fast_loops(overview: dict[str, Any]) -> Iterator[Finding]:
    """Check for loops that run without a pause, which use much CPU of the coordinator."""
    for loop in overview.get("fastLoops", ())[:MAX_LISTED]:
        yield warning(
            "fast-loop",
            f"loop {loop['ref']} of workflow {loop['workflowName']} {loop['workflowId']} runs without a pause: "
            f"{loop['rounds']} rounds, {loop['roundsPerSecond']:.0f} per second",
            "Add a WAIT task to the loop and `keepLastN` to its input, or terminate the workflow if it never ends.",
        )


def held_back(queues: list[dict[str, Any]]) -> Iterator[Finding]:
    """Check for tasks that wait for a limit of their definition."""
    for queue in queues:
        limit, rate = queue.get("concurrentLimit", 0), queue.get("rateLimit", 0)
        if queue["ready"] and limit and queue["inHand"] >= limit:
            yield warning(
                "concurrency-limit",
                f"{queue['ready']} tasks of {queue['name']} wait: the limit of {limit} concurrent tasks is reached",
                "Raise concurrentExecLimit in the task definition, unless this is intended.",
            )
        if queue["ready"] and rate and queue.get("rateOpensMs"):
            yield warning(
                "rate-limit",
                f"{queue['ready']} tasks of {queue['name']} wait: the rate limit of {rate} in "
                f"{format_duration(queue['rateWindowMs'])} is reached",
                "Raise rateLimitPerFrequency in the task definition, unless this is intended.",
            )


def busy_workers(queues: list[dict[str, Any]], now_ms: int) -> Iterator[Finding]:
    """Check for tasks that wait long because all workers of their queue are busy."""
    for queue in queues:
        is_old = queue.get("oldestMs") and now_ms - queue["oldestMs"] > UNPOLLED_MS
        limits = queue.get("concurrentLimit") or queue.get("rateLimit") or queue.get("ofServer")
        if queue["ready"] and queue["inHand"] and is_old and not limits and not queue.get("problem"):
            waits = f"{queue['ready']} tasks of {queue['name']} wait, the oldest for"
            running = f"its workers run {queue['inHand']} task{'s' if queue['inHand'] > 1 else ''}"
            line = f"{waits} {format_duration(now_ms - queue['oldestMs'])}: {running}"
            yield warning("workers-busy", line, MORE_WORKERS)


def failed_workflows(lately: dict[str, Any]) -> Iterator[Finding]:
    """List the workflows that failed in the last hour, with the reason."""
    since = lately["nowMs"] - FAILED_WITHIN_MS
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in lately["results"]:
        if (one.get("endTime") or 0) > since and not one.get("isSubWorkflow"):
            reason = (one.get("waiting") or {}).get("sentence", "no reason is known")
            groups.setdefault((one["name"], _NUMBERS_AND_IDS.sub("#", reason)), []).append(one)
    for (name, _), alike in list(groups.items())[:MAX_LISTED]:
        waiting = alike[0].get("waiting") or {}
        which = f"workflow {name} {alike[0]['workflowId']} has failed"
        if len(alike) > 1:
            which = f"{len(alike)} workflows {name} have failed for the same reason, last {alike[0]['workflowId']}"
        yield warning(
            "workflow-failed",
            f"{which}: {waiting.get('sentence', 'no reason is known')}",
            _remedy_of_failure(alike),
        )
    if len(groups) > MAX_LISTED:
        more = f"workflows have failed for {len(groups) - MAX_LISTED} more reasons in the last hour"
        yield warning("workflow-failed", more, "The web UI lists them.")


def _remedy_of_failure(alike: list[dict[str, Any]]) -> str:
    command = f"`conductor-worker workflow retry {alike[0]['workflowId']}` retries it"
    remedy = (alike[0].get("waiting") or {}).get("remedy") or "Remove the cause, then retry it."
    if remedy == START_AGAIN:
        return remedy
    if len(alike) > 1:
        command += "; the page Failures of the web UI retries all"
    return f"{remedy} {command}."


async def suspect_definitions(api: AsyncApiClient) -> AsyncIterator[Finding]:
    """Check for warnings about stored schedules and definitions, within `WARNINGS_WITHIN_S`."""
    try:
        async with asyncio.timeout(WARNINGS_WITHIN_S):
            schedules = await read_view(api, "/view/schedules/warnings", dict[str, Any])
            found = [text for texts in (schedules or {}).get("warnings", {}).values() for text in texts]
            definitions = await AsyncMetadataClient(api).get_all_workflow_defs()
            for one in definitions[:MAX_DEFINITIONS_CHECKED]:
                found += await read_warnings(api, one.name, one.version or 1)
    except (TimeoutError, ConductorError):
        return
    for text in found[:MAX_LISTED]:
        yield warning("suspect-definition", text, "Correct it, and register it again.")
    if len(found) > MAX_LISTED:
        more = f"{len(found) - MAX_LISTED} more warnings about definitions"
        yield warning("suspect-definition", more, "`conductor-worker workflow definitions` lists them.")


async def check_queues(configuration: Configuration) -> list[Finding]:
    """Return findings about the queues of a Conductor server, by their sizes and polls."""
    try:
        found = await read_queues(configuration)
    except ConductorError as error:
        problem = f"the queues of the server cannot be read: {describe_error(error)}"
        return [warning("queues-not-shown", problem, "Use a key that may read them.")]
    alone = [queue for queue in found if queue.unattended]
    if not alone:
        return [ok("every queue in which tasks wait is polled")] if found else []
    shown = [_unattended_finding(queue, found) for queue in alone[:MAX_LISTED]]
    return [*shown, *([_more(len(alone) - MAX_LISTED)] if len(alone) > MAX_LISTED else [])]


def _unattended_finding(queue: QueueState, queues: list[QueueState]) -> Finding:
    what, _, remedy = queue.problem.rpartition(": ")
    others = [one for one in queues if one.task_type == queue.task_type and one.polled_s is not None]
    polled = [one.domain or "no domain" for one in others if one.domain != queue.domain and not one.unattended]
    if not polled:
        return warning("queue-not-polled", what, f"{remedy[0].upper()}{remedy[1:]}.")
    where = f"in domain {queue.domain}" if queue.domain else "without a domain"
    return warning(
        "domain-mismatch",
        f"{what}; workers of {queue.task_type} poll in {', '.join(polled)}",
        f"Start a worker of {queue.task_type} {where}, or change taskToDomain.",
    )


def _more(count: int) -> Finding:
    return warning("queue-not-polled", f"{count} more such queues", "`conductor-worker queues` lists them.")
