"""`conductor-worker dev`: coordinator, page and workers in one; saving a file loads its workers again."""

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
from conductor.cli.reloading import Reloading, describe_change
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

#: After a second Ctrl-C the workers have this long to hand back what they have.
END_S = 5.0
#: Saves that come this close together are one: editors write a file in several steps.
TOGETHER_MS = 50
#: An import that is still going on this long after the next save is given up: newer code waits.
LONG_IMPORT_S = 2.0


@with_worker_options
def dev(
    modules: Modules,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The coordinator's port; 0 takes a free one.")] = 8080,
    database: Annotated[
        Path | None,
        typer.Option(
            "--database",
            "--db",
            help="The coordinator's SQLite file, to find everything again next time. (default: a temporary one)",
            dir_okay=False,
            show_default=False,
        ),
    ] = None,
    import_timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds after which an import of the modules is given up.")
    ] = 60.0,
    show_traceback: Traceback = False,
    **options: Any,
) -> int:
    """Run a coordinator, its page and the workers of modules; saving a Python file loads the workers again.

    All workers share one process on this terminal, so breakpoint() works. New code is imported before the old workers
    are relieved, and those finish what they have in hand: a mistake, or ten saves in a row, lose nothing.
    """
    try:
        import watchfiles  # noqa: F401
    except ImportError as error:
        raise UserError(f"dev needs {error.name}: pip install 'conductor-worker[all]'") from None
    logging.basicConfig(format=LOGGER_FORMAT, level=logging.WARNING)
    set_worker_variables(options)
    watched = _watched(modules)
    key, secret = key_pair()
    with (
        _as_it_was(),
        tempfile.TemporaryDirectory(prefix="conductor-dev-") as directory,
        _running(
            import_coordinator()(database or Path(directory) / "dev.db", port=port, auth_key=key, auth_secret=secret)
        ) as coordinator,
    ):
        if database is None:  # what was not delivered to a server that is gone is of no use to the next
            os.environ.setdefault("CONDUCTOR_WORKER_JOURNAL_DIR", str(Path(directory) / "journal"))
        where = "a temporary database" if database is None else f"database {database}"
        print_line(f"Coordinator at {coordinator.url}, {where}. The page: {coordinator.url.removesuffix('api')}")
        reloading = Reloading(
            Path(directory) / "terminal",
            coordinator.url,
            modules,
            show_traceback=show_traceback,
            import_limit_s=import_timeout,
        )
        asyncio.run(_until_told(reloading, watched, Configuration(coordinator.url)))
        print_line("Stopped.")
    return 0


@contextmanager
def _running(coordinator: Coordinator) -> Iterator[Coordinator]:
    from conductor.coordinator.store.database_file import StoreRefused

    try:
        coordinator.start()
    except (OSError, StoreRefused) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise UserError(f"{said} (--port 0 takes a free port, --database another file)") from None
    try:
        yield coordinator
    finally:
        coordinator.stop()


@contextmanager
def _as_it_was() -> Iterator[None]:
    """Leave the terminal as it was, also when a debugger was ended in the middle of a line."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


def _watched(modules: list[str]) -> list[Path]:
    """The directories whose Python files are watched: this one, and those of modules that lie elsewhere."""
    here = Path.cwd()
    add_import_path(here)
    found = {here}
    for module in modules:
        with suppress(ImportError, ValueError):  # a module that cannot be found is told of by whoever imports it
            spec = find_spec(resolve_module(module).split(".")[0])
            file = Path(spec.origin).resolve() if spec is not None and spec.origin else None
            if file is not None and not file.is_relative_to(here):
                found.add(file.parent)
    return sorted(found)


async def _until_told(reloading: Reloading, watched: list[Path], server: Configuration) -> None:
    loop, told, again = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    def on_signal(second: bool) -> None:
        loop.call_soon_threadsafe((again if second else told).set)

    with handle_stop_signals(on_signal, signals=(signal.SIGINT, signal.SIGTERM)):
        going = asyncio.create_task(_load_whenever_saved(reloading, watched))
        stopping = asyncio.create_task(told.wait())
        try:
            await asyncio.wait({going, stopping}, return_when=asyncio.FIRST_COMPLETED)
            await _end(reloading, going, again, await _in_hand(server))
        finally:
            reloading.kill()
            stopping.cancel()
    if not going.cancelled():
        going.result()


async def _load_whenever_saved(reloading: Reloading, watched: list[Path]) -> None:
    import watchfiles

    # Watching begins first: what is saved while the workers are loaded is not missed.
    changes = watchfiles.awatch(*watched, watch_filter=watchfiles.PythonFilter(), step=TOGETHER_MS)
    try:
        why = None
        while True:
            next_save = asyncio.ensure_future(anext(changes))
            loading = asyncio.ensure_future(reloading.load(why))
            await asyncio.wait({loading, next_save}, return_when=asyncio.FIRST_COMPLETED)
            # Newer code has been saved, or nothing is loading any more. A long import of older code is given up.
            if not (await asyncio.wait({loading}, timeout=LONG_IMPORT_S))[0]:
                reloading.give_up_import()
            await loading
            why = escape(describe_change([path for _, path in await next_save]))
    except OSError as error:
        raise UserError(f"the files in {watched[0]} cannot be watched: {error}") from None


async def _in_hand(server: Configuration) -> str:
    try:
        async with open_client(server) as api:
            count = int((await api.call_for(dict[str, Any], "GET", "/view/overview"))["inHand"])
    except (ConductorError, LookupError, ValueError):
        return "what is in hand is"
    return {0: "nothing is in hand that must be", 1: "1 task in hand is"}.get(count, f"{count} tasks in hand are")


async def _end(reloading: Reloading, going: asyncio.Task[None], again: asyncio.Event, in_hand: str) -> None:
    """The first signal waits for what is in hand, the second for no more than the hand-back of it."""
    reloading.stop()
    print_line(f"Stopping: {in_hand} finished first. Ctrl-C again ends it at once.")
    ended = asyncio.create_task(reloading.ended())
    hurry = asyncio.create_task(again.wait())
    await asyncio.wait({ended, hurry}, return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        reloading.stop()
        if not await reloading.ended(END_S):
            reloading.kill()
        await ended
    hurry.cancel()
    going.cancel()
    await asyncio.gather(going, return_exceptions=True)
