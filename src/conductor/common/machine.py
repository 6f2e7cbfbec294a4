"""The machine we run on: where state is kept, who holds a file, which addresses are our own, which event loop runs."""

from __future__ import annotations

import asyncio
import errno
import gc
import ipaddress
import logging
import os
import stat
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

try:
    import fcntl
except ModuleNotFoundError:
    raise ImportError("conductor-worker runs on Linux and macOS; on Windows use WSL", name="fcntl") from None

T = TypeVar("T")

logger = logging.getLogger(__name__)

#: Tasks that are cancelled when a program ends have this long to clean up.
CLEAN_UP_S = 2.0
#: The garbage collector looks when there are so many more objects than at its last look.
YOUNG_OBJECTS = 5_000


def run_on_loop(main: Coroutine[Any, Any, T]) -> T:
    """Like asyncio.run, on uvloop where it is installed.

    A task that ignores its cancellation is left behind after `CLEAN_UP_S`; asyncio.run would wait for it for ever.
    """
    try:
        import uvloop
    except ImportError:
        runner = asyncio.Runner()
    else:
        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    try:
        return runner.run(main)
    finally:
        if runner.run(_cancel_other_tasks()):
            runner.close()


async def _cancel_other_tasks() -> bool:
    """Cancel all other tasks of the loop. False: some have not ended within `CLEAN_UP_S`."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=CLEAN_UP_S)
    stubborn = [task for task in others if not task.done()]
    for task in stubborn:
        logger.warning("Ending without a coroutine that ignores its cancellation: %s", task.get_coro())
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    return not stubborn


def keep_what_is_loaded() -> None:
    """Have the garbage collector leave alone all that is in memory now: code, which stays as long as the process.

    For processes that are all ours. It saves about a sixth of the CPU of a small task. What is made later is looked
    through less often than by default: most of it is gone by itself when its task has ended.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])


def state_directory() -> Path:
    """Where our files live unless told otherwise: the user's state directory, or a temporary one without a home.

    Raises OSError when somebody else may have made the temporary one: anybody can, under a name that anybody knows.
    """
    try:
        base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    except RuntimeError:  # a container that runs as a number nobody has a name for
        base = Path(tempfile.gettempdir()) / f"state-{os.getuid()}"
        base.mkdir(mode=0o700, exist_ok=True)
        found = base.lstat()
        if not stat.S_ISDIR(found.st_mode) or writable_by_others(found):
            raise PermissionError(
                errno.EPERM,
                "it belongs to another user, or others can write to it, so nothing of ours is kept there; "
                "set XDG_STATE_HOME to a directory of your own",
                str(base),
            ) from None
    return base / "conductor-worker"


def writable_by_others(found: os.stat_result) -> bool:
    """Whether somebody else can write to a file or directory: it is not ours, or its group or all may."""
    return found.st_uid != os.geteuid() or bool(found.st_mode & 0o022)


def is_loopback(host: str) -> bool:
    """Whether a host name or address can only mean this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def try_lock(file: int) -> bool:
    """Take a file for this process alone, until it is closed or the process ends. False: another process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(file: int) -> None:
    """Give a file back. Needed where copies of the descriptor stay open, for they hold the lock as well."""
    fcntl.flock(file, fcntl.LOCK_UN)
