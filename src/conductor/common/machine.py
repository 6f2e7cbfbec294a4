"""The machine that the process runs on: state directory, file locks, loopback addresses, memory and the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import ipaddress
import logging
import os
import resource
import socket
import stat
import sys
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

#: Coroutines that are cancelled at the end of a program have this long to clean up.
CLEAN_UP_S = 2.0
#: `raise_file_limit` raises the limit of open files up to this number.
MAX_FILES = 65_536
#: The garbage collector runs after this many new objects. Python's default is 700 or 2,000.
YOUNG_OBJECTS = 5_000


def run_event_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine like `asyncio.run`, on uvloop where it is installed. Return its result.

    Tasks that ignore their cancellation are abandoned after `CLEAN_UP_S`. `asyncio.run` would wait forever.
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
    """Cancel all other tasks of the loop. Return whether all of them ended within `CLEAN_UP_S`."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=CLEAN_UP_S)
    stubborn = [task for task in others if not task.done()]
    if not stubborn:
        return True
    for task in stubborn:
        logger.warning(
            "Coroutine ignores its cancellation, so the program ends without waiting for it: %s", task.get_coro()
        )

    def handle_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # asyncio reports every unfinished task that is destroyed. The warning above replaces that report.
        if context.get("task") not in stubborn:
            loop.default_exception_handler(context)

    asyncio.get_running_loop().set_exception_handler(handle_error)
    return False


def freeze_loaded_objects() -> None:
    """Exempt all objects in memory, which are mostly code, from garbage collection, and collect newer ones less often.

    Call this only in processes that this package starts. This saves about a sixth of the CPU time of a small task.
    Reference counting frees most newer objects when their task ends.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])


def read_memory_bytes() -> int:
    """Return the resident memory of this process; on systems without /proc, its largest value so far."""
    pages = read_memory_pages(1)
    if pages is None:
        largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return largest if sys.platform == "darwin" else largest * 1024
    return pages * resource.getpagesize()


def read_memory_pages(column: int) -> int | None:
    """Return a column of /proc/self/statm, in pages; None on systems without /proc."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[column])
    except OSError:
        return None


def read_file_limit() -> int:
    """Return how many files and connections this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def raise_file_limit() -> None:
    """Let this process open up to `MAX_FILES` files and connections, if its hard limit allows that.

    The usual soft limit of 1,024 exists for programs that call `select`.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(MAX_FILES, hard)
    if wanted > read_file_limit():
        with contextlib.suppress(OSError, ValueError):  # macOS has a further limit, which getrlimit does not report
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def notify_systemd(state: str) -> None:
    """Tell systemd about a state such as `READY=1`, if this process is a service with `Type=notify`."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notify:
        # An address that begins with @ is an abstract one, whose first byte is 0.
        notify.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)


def state_directory() -> Path:
    """Return the default directory for files of this package.

    The parent is the user's state directory or, for a user without a home, a private directory in `/tmp`.

    Raises:
        PermissionError: Another user created the directory in `/tmp` or can write to it.
    """
    try:
        base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    except RuntimeError:  # the user id has no account, as in some containers
        base = Path(tempfile.gettempdir()) / f"state-{os.getuid()}"
        base.mkdir(mode=0o700, exist_ok=True)
        found = base.lstat()
        if not stat.S_ISDIR(found.st_mode) or is_writable_by_others(found):
            raise PermissionError(
                errno.EPERM,
                "it belongs to another user or is writable by others, so it is not used; "
                "set XDG_STATE_HOME to a directory of your own",
                str(base),
            ) from None
    return base / "conductor-worker"


def is_writable_by_others(found: os.stat_result) -> bool:
    """Return whether another user can write to a file or directory."""
    return found.st_uid != os.geteuid() or bool(found.st_mode & 0o022)


def is_loopback(host: str) -> bool:
    """Return whether a host name or address means this machine. An IPv6 address may be in brackets."""
    name = host.lower().removeprefix("[").removesuffix("]").removesuffix(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def try_lock(file: int) -> bool:
    """Lock a file until it is closed or the process ends. Return False if another process holds the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(file: int) -> None:
    """Release the lock. Closing the file is not enough while copies of its descriptor are open."""
    fcntl.flock(file, fcntl.LOCK_UN)
