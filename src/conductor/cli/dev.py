"""`conductor-worker dev`: a coordinator with its web UI and workers that reload when a file is saved."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import tempfile
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conductor.cli.console import print_line
from conductor.cli.discovery import Modules, Traceback, add_import_path, resolve_module
from conductor.cli.finished_workflows import report_ends
from conductor.cli.reloading import Reloader, describe_change
from conductor.cli.serve import key_pair
from conductor.cli.server_kind import open_client
from conductor.cli.support import UserError, import_coordinator
from conductor.cli.worker_options import set_worker_variables, with_worker_options
from conductor.client.configuration.configuration import LOGGER_FORMAT, Configuration
from conductor.client.http.async_rest import ConductorError
from conductor.common.signals import handle_stop_signals
from conductor.common.text import escape

if TYPE_CHECKING:
    from conductor.coordinator import Coordinator

#: After a second Ctrl-C, the workers have this long to requeue their tasks.
REQUEUE_TIMEOUT_S = 5.0
#: Saves within this time count as one, because editors write a file in several steps.
DEBOUNCE_MS = 50
#: If a file is saved during an import, the import is cancelled after this time.
LONG_IMPORT_S = 2.0


@with_worker_options
def dev(
    modules: Modules,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the coordinator; 0 chooses a free one.")] = 8080,
    database: Annotated[
        Path | None,
        typer.Option(
            "--database",
            "--db",
            help="SQLite file of the coordinator. (default: a temporary file)",
            dir_okay=False,
            show_default=False,
        ),
    ] = None,
    import_timeout: Annotated[
        float, typer.Option(min=0.1, help="Cancel an import of the modules after this many seconds.")
    ] = 60.0,
    show_traceback: Traceback = False,
    **options: Any,
) -> int:
    """Run a coordinator and the workers of modules, for development.

    Saving a Python file reloads the workers. All workers share one process on this
    terminal, so breakpoint() works. New code is imported before the old workers
    stop, and the old workers finish their running tasks.
    """
    try:
        import watchfiles  # noqa: F401
    except ImportError as error:
        raise UserError(f"dev needs {error.name}: pip install 'conductor-worker[all]'") from None
    logging.basicConfig(format=LOGGER_FORMAT, level=logging.WARNING)
    set_worker_variables(options)
    watched = _directories_to_watch(modules)
    key, secret = key_pair()
    with (
        _restore_terminal(),
        tempfile.TemporaryDirectory(prefix="conductor-dev-") as directory,
        _run_coordinator(
            import_coordinator()(database or Path(directory) / "dev.db", port=port, auth_key=key, auth_secret=secret)
        ) as coordinator,
    ):
        if database is None:  # the journal is temporary too, because its results cannot be delivered later
            os.environ.setdefault("CONDUCTOR_WORKER_JOURNAL_DIR", str(Path(directory) / "journal"))
        where = "a temporary database" if database is None else f"database {database}"
        print_line(f"Coordinator at {coordinator.url}, {where}. Web UI: {coordinator.url.removesuffix('api')}")
        reloader = Reloader(
            Path(directory) / "terminal",
            coordinator.url,
            modules,
            show_traceback=show_traceback,
            import_limit_s=import_timeout,
        )
        asyncio.run(_run_until_signal(reloader, watched, Configuration(coordinator.url)))
        print_line("Stopped.")
    return 0


@contextmanager
def _run_coordinator(coordinator: Coordinator) -> Iterator[Coordinator]:
    from conductor.coordinator.store.database_file import StoreRefused

    try:
        coordinator.start()
    except OSError as error:
        raise UserError(f"{error.strerror or error} (--port 0 chooses a free port)") from None
    except StoreRefused as error:
        raise UserError(f"{error} (--database names the file)") from None
    try:
        yield coordinator
    finally:
        coordinator.stop()


@contextmanager
def _restore_terminal() -> Iterator[None]:
    """Restore the terminal after the block, even if a debugger was killed."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


def _directories_to_watch(modules: list[str]) -> list[Path]:
    """Return the directories to watch: the current directory, and the directories of modules outside it."""
    here = Path.cwd()
    add_import_path(here)
    found = {here}
    for module in modules:
        with suppress(ImportError, ValueError):  # the worker process reports a missing module
            spec = find_spec(resolve_module(module).split(".")[0])
            file = Path(spec.origin).resolve() if spec is not None and spec.origin else None
            if file is not None and not file.is_relative_to(here):
                found.add(file.parent)
    return sorted(found)


async def _run_until_signal(reloader: Reloader, watched: list[Path], server: Configuration) -> None:
    loop, first, again = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    def on_signal(second: bool) -> None:
        loop.call_soon_threadsafe((again if second else first).set)

    with handle_stop_signals(on_signal, signals=(signal.SIGINT, signal.SIGTERM)):
        going = asyncio.create_task(_reload_on_save(reloader, watched))
        reporting = asyncio.create_task(report_ends(server))
        stopping = asyncio.create_task(first.wait())
        try:
            await asyncio.wait({going, stopping}, return_when=asyncio.FIRST_COMPLETED)
            await _end(reloader, going, again, await _describe_running_tasks(server))
        finally:
            reloader.kill()
            stopping.cancel()
            reporting.cancel()
    if not going.cancelled():
        going.result()


async def _reload_on_save(reloader: Reloader, watched: list[Path]) -> None:
    import watchfiles

    # Start watching before the import, so that no save is missed.
    changes = watchfiles.awatch(*watched, watch_filter=watchfiles.PythonFilter(), step=DEBOUNCE_MS)
    try:
        why = None
        while True:
            next_save = asyncio.ensure_future(anext(changes))
            loading = asyncio.ensure_future(reloader.load(why))
            await asyncio.wait({loading, next_save}, return_when=asyncio.FIRST_COMPLETED)
            # Either the import has ended, or a file was saved during it. In the second case the import loads old code,
            # so
            # it is cancelled if it takes long.
            if not (await asyncio.wait({loading}, timeout=LONG_IMPORT_S))[0]:
                reloader.cancel_import()
            await loading
            why = escape(describe_change([path for _, path in await next_save]))
    except OSError as error:
        raise UserError(f"the files in {watched[0]} cannot be watched: {error}") from None


async def _describe_running_tasks(server: Configuration) -> str:
    try:
        async with open_client(server) as api:
            count = int((await api.call_for(dict[str, Any], "GET", "/view/overview"))["inHand"])
    except (ConductorError, LookupError, ValueError):
        return "running tasks are finished first"
    if count == 0:
        return "no running task has to be finished first"
    return "1 running task is finished first" if count == 1 else f"{count} running tasks are finished first"


async def _end(reloader: Reloader, going: asyncio.Task[None], again: asyncio.Event, in_hand: str) -> None:
    """Finish the running tasks after the first signal, and requeue them after the second."""
    reloader.stop()
    print_line(f"Stopping: {in_hand}. Press Ctrl-C again to stop immediately.")
    ended = asyncio.create_task(reloader.wait_ended())
    hurry = asyncio.create_task(again.wait())
    await asyncio.wait({ended, hurry}, return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        reloader.stop()
        if not await reloader.wait_ended(REQUEUE_TIMEOUT_S):
            reloader.kill()
        await ended
    hurry.cancel()
    going.cancel()
    await asyncio.gather(going, return_exceptions=True)
