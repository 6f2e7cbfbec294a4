"""The table of all options of workers, and the values of these options for one worker.

A value comes from the environment variable of the worker, else from the global variable, else from code, else from the
default. The environment, the command line, the reference page and the attributes of workers are derived from the
table. `worker_task` and `Worker` repeat the names in their signatures, for editors.
"""

import functools
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from conductor.client.configuration.option import (
    LEVELS,
    ConfigurationError,
    Option,
    find_nearest,
    list_global_variables,
    list_options,
    list_variables,
    option,
)
from conductor.protocol.wire import MAX_POLL_TIMEOUT_MS

__all__ = [
    "OPTIONS",
    "ConfigurationError",
    "Option",
    "ResolvedConfig",
    "find_unknown_variables",
    "format_start_line",
    "get_worker_config_oneline",
    "get_worker_config_summary",
    "process_worker_id",
    "resolve_worker_config",
]


def process_worker_id() -> str:
    """Return the worker id of this process. A forked child gets a new id."""
    return _worker_id(os.getpid())


@functools.lru_cache(maxsize=1)
def _worker_id(pid: int) -> str:
    # The random part distinguishes containers with the same host name and process ids.
    return f"{socket.gethostname()}-{pid}-{os.urandom(3).hex()}"


class WorkerOptions:
    """The options of one worker."""

    poll_interval_millis: int = option(
        100,
        "Longest wait between two polls while there is no work, in milliseconds.",
        minimum=1,
        aliases=("poll_interval", "polling_interval"),
    )
    thread_count: int = option(
        1,
        "Maximum number of tasks that run at the same time: in threads for a `def`, as coroutines for an `async def`.",
        minimum=1,
        maximum=10_000,
    )
    prefetch: int = option(
        0,
        "Number of tasks that may wait in the worker for a slot, beyond `thread_count`; needs a coordinator.",
        minimum=0,
        maximum=1000,
    )
    domain: str | None = option(None, "Task domain: only tasks of this domain are polled.")
    worker_id: str = option(
        process_worker_id,
        "Name under which the worker polls and reports.",
        default_text="host, process id and a random part",
    )
    poll_timeout: int = option(
        100,
        "How long the server may hold a poll of a worker that is not idle, in milliseconds.",
        minimum=0,
        maximum=MAX_POLL_TIMEOUT_MS,
    )
    idle_poll_timeout: int = option(
        5000,
        "How long the server may hold the poll of an idle worker, in milliseconds. "
        "0: an idle worker polls every `poll_interval_millis` instead.",
        minimum=0,
        maximum=MAX_POLL_TIMEOUT_MS,
    )
    lease_extend_enabled: bool = option(
        False, "Send heartbeats while a task runs, so that it may run longer than its response timeout."
    )
    register_task_def: bool = option(False, "Register the task definition, with schemas from the type hints, at start.")
    overwrite_task_def: bool = option(
        True, "The registration replaces a task definition and schemas that the server already has."
    )
    strict_schema: bool = option(
        False, "Input must match the annotations exactly: no conversion, no unknown keys, nothing missing."
    )
    register_schema: bool = option(
        True, "The registration of the task definition also registers the schemas of the type hints."
    )
    paused: bool = option(False, "The worker does not poll for tasks.")
    verify_reports: bool = option(
        False, "Read each task after its report, on servers whose answer does not say whether they accepted it."
    )
    update_attempts: int = option(
        4,
        "The number of attempts to send a result. After the last attempt, the result stays in the journal.",
        minimum=1,
        maximum=100,
    )
    update_retry_delay_seconds: float = option(
        10.0,
        "Seconds before the second attempt to send a result. The wait before the n-th attempt is n - 1 times as long.",
        minimum=0,
    )
    task_log_level: str | None = option(
        None, "Log records of this level and above inside a task also become the logs of the task.", choices=LEVELS
    )
    log_tracebacks: bool = option(True, "Log the traceback of a failed task in the log of the worker.")
    poison_limit: int = option(
        3,
        "A task that has killed this many worker processes is not retried. 0: the number of deaths has no limit.",
        minimum=0,
        maximum=65_535,
    )
    process_name: str | None = option(
        None,
        "In a TaskHandler, workers with the same process name share one process. Other workers have one process each.",
    )


_process_option = functools.partial(option, per_worker=False)


class ProcessOptions:
    """The options of a process. Neither variables nor code can set a process option for a single worker."""

    shutdown_grace_seconds: float = _process_option(
        25.0, "How long a stopping process waits for running tasks, in seconds.", minimum=0
    )
    strict_registry: bool = _process_option(
        False, "Two functions for one task type and domain are an error at start instead of a warning."
    )
    journal_enabled: bool = _process_option(
        True, "Store results on disk until the server has answered.", aliases=("journal",)
    )
    journal_dir: str | None = _process_option(
        None, "Directory of the result journal.", default_text="the user's state directory"
    )
    journal_max_age_seconds: int = _process_option(
        604_800, "The age in seconds after which an undelivered result is discarded.", minimum=1
    )
    journal_max_bytes: int = _process_option(
        268_435_456, "The largest size of the journal of one process, in bytes.", minimum=65_536
    )
    max_tasks_per_process: int = _process_option(
        0, "A process of TaskHandler is replaced after this many tasks. 0: never.", minimum=0
    )
    max_memory_mb: int = _process_option(
        0,
        "A process of TaskHandler that uses more megabytes than this is replaced. 0: never.",
        minimum=0,
    )
    memory_limit_mb: int = _process_option(
        0,
        "The memory limit of a process of TaskHandler in megabytes; beyond it, Python raises MemoryError. 0: no limit.",
        minimum=0,
    )
    nice: int = _process_option(
        0,
        "The niceness of the processes of TaskHandler: higher values leave more CPU time to other programs.",
        minimum=0,
        maximum=19,
    )
    kill_stuck: bool = _process_option(
        False, "If a function continues after its timeout, its process of TaskHandler is replaced and killed."
    )


#: All options by name.
OPTIONS: Mapping[str, Option] = {**list_options(WorkerOptions), **list_options(ProcessOptions)}

_BY_NAME_OR_ALIAS = {spelling: row for row in OPTIONS.values() for spelling in row.spellings}
_GLOBAL_VARIABLES = frozenset(variable for row in OPTIONS.values() for variable in list_global_variables(row))


def find_option(name: str) -> Option:
    """Return the option with this name or alias.

    Raises:
        KeyError: There is no such option.
    """
    return _BY_NAME_OR_ALIAS[name]


#: Field of TaskDef → the option that sets it. The error about an unknown option suggests this name.
_FIELDS_OF_TASK_DEF = {
    "retry_count": "retries",
    "retry_delay_seconds": "retry_delay_s",
    "retry_logic": "backoff",
    "timeout_seconds": "timeout_s",
}


def describe_unknown_option(name: str, allowed: Iterable[str]) -> str:
    """Return the message about an unknown option, with the most similar name."""
    names = sorted(allowed)
    field = _FIELDS_OF_TASK_DEF.get(name)
    meant = field if field in names else find_nearest(name, names)
    advice = f"did you mean '{meant}'? The" if meant else "the"
    return f"no option '{name}'; {advice} options are {', '.join(names)}"


class ResolvedConfig(WorkerOptions, ProcessOptions, Mapping[str, Any]):
    """The option values of one worker and where each value comes from. Also a mapping by option name.

    Resolve the options in the process that runs the worker, because the default worker id belongs to the process.
    """

    def __init__(self, worker_name: str, values: Mapping[str, Any], sources: Mapping[str, str]) -> None:
        self.worker_name = worker_name
        self.sources = sources
        vars(self).update(values)

    def source(self, name: str) -> str:
        """Return the source of a value: `default`, `code` or `env <VARIABLE>`."""
        return self.sources[find_option(name).name]

    def __getitem__(self, name: str) -> Any:
        return getattr(self, find_option(name).name)

    def __iter__(self) -> Iterator[str]:
        return iter(OPTIONS)

    def __len__(self) -> int:
        return len(OPTIONS)


def resolve_worker_config(
    worker_name: str,
    code_defaults: Mapping[str, Any] | None = None,
    *,
    env: Mapping[str, str] | None = None,
    **code: Any,
) -> ResolvedConfig:
    """Return the values of all options of a worker.

    Args:
        worker_name: The task type of the worker.
        code_defaults: Values from code by name or alias; None means not set.
        env: The environment; by default that of the process.
        **code: Further values from code.

    Raises:
        ConfigurationError: A value is not allowed.
    """
    environ = os.environ if env is None else env
    given = _collect_code_values(worker_name, {**(code_defaults or {}), **code})
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for row in OPTIONS.values():
        values[row.name], sources[row.name] = _resolve(row, worker_name, given, environ)
    return ResolvedConfig(worker_name, values, sources)


def _resolve(row: Option, worker_name: str, given: Mapping[str, Any], env: Mapping[str, str]) -> tuple[Any, str]:
    for variable in list_variables(row, worker_name, _GLOBAL_VARIABLES):
        text = env.get(variable)
        if text:
            return row.parse(text, variable), f"env {variable}"
        if text is not None and row.can_be_cleared:
            return row.default_value(), f"env {variable}"
    if row.name in given:
        return row.check(given[row.name], f"worker {worker_name!r}, {row.name}"), "code"
    return row.default_value(), "default"


def _collect_code_values(worker_name: str, code: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are set, by option name. The values of a name and its aliases must be equal."""
    given: dict[str, Any] = {}
    for spelling, value in code.items():
        if spelling not in _BY_NAME_OR_ALIAS:
            raise ConfigurationError(f"worker {worker_name!r} has {describe_unknown_option(spelling, OPTIONS)}")
        if value is None or value == "":
            continue
        name = find_option(spelling).name
        if name in given and given[name] != value:
            raise ConfigurationError(f"worker {worker_name!r}: {spelling}={value!r} contradicts {name}={given[name]!r}")
        given[name] = value
    return given


def find_unknown_variables(env: Mapping[str, str], worker_names: Iterable[str]) -> list[str]:
    """Return a warning for each variable that resembles a variable of an option and has no effect."""
    from conductor.client.configuration.near_misses import describe_unknown_variables

    return list(describe_unknown_variables(env, OPTIONS.values(), worker_names))


def format_start_line(config: ResolvedConfig, name: str, pid: int) -> str:
    """Return the line that a worker logs at its start.

    The line shows the option `lease_extend`. A worker sends heartbeats to a coordinator even if the option is false.
    """
    domain = f"domain={config.domain}, " if config.domain else ""
    return (
        f"Conductor Worker[name={name}, pid={pid}, status={'paused' if config.paused else 'active'}, "
        f"poll_interval={config.poll_interval_millis}ms, {domain}thread_count={config.thread_count}, "
        f"poll_timeout={config.poll_timeout}ms, lease_extend={'true' if config.lease_extend_enabled else 'false'}]"
    )


def get_worker_config_oneline(worker_name: str, resolved_config: ResolvedConfig) -> str:
    """Return the line that a worker of this name would log at its start in this process."""
    return format_start_line(resolved_config, worker_name, os.getpid())


def get_worker_config_summary(worker_name: str, resolved_config: ResolvedConfig) -> str:
    """Return the options with a value and their sources, one per line."""
    given = [(name, value) for name, value in resolved_config.items() if value is not None]
    lines = [f"  {name}: {value} (from {resolved_config.source(name)})" for name, value in given]
    return "\n".join([f"Worker '{worker_name}' configuration:", *lines])
