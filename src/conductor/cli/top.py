"""`conductor-worker top`: queues, workers and leases, live."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from conductor.cli.console import make_console, print_line, silence_logger
from conductor.cli.live_state import Frame, queue_name, read_frame
from conductor.cli.server_kind import describe_error, open_client
from conductor.cli.support import Url, UserError, make_configuration
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_rest import ConductorError
from conductor.common.text import escape
from conductor.protocol.why_waiting import format_duration

#: Sort orders of the queues; the key `s` selects the next one. Queues with a problem always come first.
SORTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "waiting": lambda queue: -queue["ready"],
    "in hand": lambda queue: -queue.get("inHand", 0),
    "rate": lambda queue: -(queue.get("stats") or {}).get("endedPerMin", 0),
    "name": queue_name,
}
KEYS = "q quit  s sort  w workers  l leases  j/k move  Enter open"
#: Current view → the view that Enter opens.
_ENTER = {"queues": "queue", "workers": "queue", "leases": "lease", "queue": "queues", "lease": "leases"}
_ARROWS = {"\x1b[A": "k", "\x1b[B": "j", "\r": "\n"}


class Screen:
    """The current view, the selected row, and the last frame."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._sort = "waiting"
        self._chosen = 0
        self._view = "queues"
        #: Task id of the lease in the details view, because the row of the lease can move in the list.
        self._lease: str | None = None
        self.frame: Frame | None = None
        self.error: str | None = None

    def press(self, key: str) -> bool:
        """Process a key. Return False if the key quits the command."""
        match _ARROWS.get(key, key):
            case "q":
                return False
            case "s":
                names = list(SORTS)
                self._sort = names[(names.index(self._sort) + 1) % len(names)]
            case "w":
                self._show("queues" if self._view == "workers" else "workers")
            case "l":
                self._show("queues" if self._view == "leases" else "leases")
            case "j":
                self._chosen += 1
            case "k":
                self._chosen = max(0, self._chosen - 1)
            case "\n":
                self._open_selected()
            case "\x1b":
                self._view = "leases" if self._view == "lease" else "queues"
        return True

    def _show(self, view: str) -> None:
        if (view == "leases") is not (self._view in ("leases", "lease")):
            self._chosen = 0  # the old index belongs to another table
        self._view = view

    def _open_selected(self) -> None:
        if self._view == "leases":
            held = (self.frame and self.frame.leases) or []
            if not held:
                return
            self._lease = held[min(self._chosen, len(held) - 1)]["taskId"]
        self._view = _ENTER[self._view]

    def draw(self, *, height: int | None = None) -> RenderableType:
        """Return the current view, with at most as many rows as fit into `height`."""
        if self.frame is None:
            return Text(self.error or f"reading from {self._host} …")
        parts: list[RenderableType] = [self._header(self.frame), Text("")]
        room = None if height is None else max(1, height - 8)
        queues = sorted(self.frame.queues, key=lambda queue: (not queue.get("problem"), SORTS[self._sort](queue)))
        rows = self.frame.leases or [] if self._view in ("leases", "lease") else queues
        self._chosen = min(self._chosen, max(0, len(rows) - 1))
        first = 0 if room is None else max(0, self._chosen - room + 1)
        chosen = None if height is None else self._chosen - first
        if self._view == "workers":
            parts.append(_workers(self.frame, room))
        elif self._view == "leases":
            parts.append(_leases(self.frame, rows[first:][:room], chosen))
        elif self._view == "lease":
            parts.append(_lease(self.frame, next((one for one in rows if one["taskId"] == self._lease), None)))
        elif self._view == "queue" and queues:
            parts.append(_queue_details(self.frame, queues[self._chosen], room))
        else:
            parts.append(_queues(self.frame, queues[first:][:room], chosen))
        if height is None and self.frame.leases:  # a frame that is printed once shows the leases as well
            parts += [Text(""), _leases(self.frame, self.frame.leases, None)]
        if height is not None:
            parts.append(Text(f"\n{KEYS}", style="dim", no_wrap=True, overflow="ellipsis"))
        return Group(*parts)

    def _header(self, frame: Frame) -> Text:
        seen = frame.overview
        bar = Text(self._host, style="bold", overflow="ellipsis", no_wrap=True)
        bar.append(f"  by {self._sort}\n", style="dim")
        numbers = [f"{seen[key]:,} {words}" for key, words in _NUMBERS.items() if key in seen]
        bar.append("  ".join(numbers) or "nothing is known")
        problems = sum(1 for queue in frame.queues if queue.get("problem"))
        if problems:
            bar.append(f"  {problems} queues that no worker polls", style="bold red")
        if not seen.get("healthy", True):
            bar.append(f"\nnot healthy: {escape(str(seen.get('health')))}", style="bold red")
        if self.error or frame.limitation:
            bar.append(f"\n{self.error or frame.limitation}", style="yellow")
        return bar


_VERDICTS = {"COMMITTED": "committed", "CANCELLED": "cancelled", "REJECTED": "rejected", "NONE": "without a lease"}
_NUMBERS = {
    "running": "running",
    "failedLately": "failed in the last hour",
    "waiting": "waiting",
    "inHand": "held by workers",
}


def _queues(frame: Frame, queues: list[dict[str, Any]], chosen: int | None) -> RenderableType:
    if not queues:
        return Text("There are no queues: no task waits, and no worker polls.")
    table = _table("queue", "waiting", "oldest", "held", "/min", "p50", "polled")
    for number, queue in enumerate(queues):
        stats = queue.get("stats") or {}
        polled = "now" if queue.get("parked") else _format_since(frame, queue.get("lastPollMs"))
        table.add_row(
            queue_name(queue),
            f"{queue['ready']:,}",
            _format_since(frame, queue.get("oldestMs")),
            f"{queue['inHand']:,}" if "inHand" in queue else "?",
            f"{stats['endedPerMin']:g}" if stats else "",
            format_duration(stats["runP50Ms"]) if stats.get("runP50Ms") is not None else "",
            "NO WORKER" if queue.get("problem") else polled,
            style="reverse" if number == chosen else ("red" if queue.get("problem") else ""),
        )
    return table


def _workers(frame: Frame, room: int | None) -> RenderableType:
    table = _table("worker", "queue", "held", "oldest")
    for one in frame.workers()[:room]:
        held = _format_since(frame, one.get("oldestStartedMs"))
        table.add_row(escape(one["worker"]), escape(one["queue"]), str(one["inHand"]), held)
    return table if table.row_count else Text("No worker has polled, and no worker holds a task.")


def _leases(frame: Frame, leases: list[dict[str, Any]], chosen: int | None) -> RenderableType:
    if frame.leases is None:
        return Text("This server does not report leases.")
    if not leases:
        return Text("No worker holds a task.")
    table = _table("worker", "task", "held", "contact", "left", "until")
    for number, one in enumerate(leases):
        style = "red" if one["untilMs"] <= frame.now_ms else ""
        table.add_row(
            escape(one.get("workerId") or "?"),
            queue_name(one),
            _format_since(frame, one["startedMs"]),
            _format_since(frame, one["heardMs"]),
            _format_left(frame, one["untilMs"]),
            _format_clock(one["untilMs"]),
            style="reverse" if number == chosen else style,
        )
    more = frame.overview.get("inHand", 0) - len(frame.leases)
    if more <= 0:
        return table
    return Group(table, Text(f"and about {more:,} more that expire later", style="dim"))


def _lease(frame: Frame, lease: dict[str, Any] | None) -> RenderableType:
    if lease is None:
        return Text("The lease has ended, or others expire sooner. Press Enter to go back.")
    about = Text(f"{queue_name(lease)}, held by {escape(lease.get('workerId') or '?')}", style="bold")
    facts = {
        "lease left": f"{_format_left(frame, lease['untilMs'])}, until {_format_clock(lease['untilMs'])}",
        "last contact": f"{_format_since(frame, lease['heardMs'])} ago",
        "held for": _format_since(frame, lease["startedMs"]),
        "attempt": str(lease["attempt"]),
        "task": f"{lease['ref']} {lease['taskId']}",
        "workflow": f"{lease['workflowName']} {lease['workflowId']}",
        "more": f"conductor-worker task show {lease['taskId']}",
    }
    table = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        table.add_row(Text(name, style="dim"), Text(escape(value), overflow="fold"))
    return Group(about, table)


def _format_left(frame: Frame, until_ms: int) -> str:
    return format_duration(until_ms - frame.now_ms) if until_ms > frame.now_ms else "expired"


def _format_clock(at_ms: int) -> str:
    """Format the time of day in the local time zone."""
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%H:%M:%S")


def _queue_details(frame: Frame, queue: dict[str, Any], room: int | None) -> RenderableType:
    about = Text(
        f"{queue_name(queue)}: {queue['ready']:,} waiting, {queue.get('delayed', 0):,} due later", style="bold"
    )
    if queue.get("concurrentLimit"):
        about.append(f"\nat most {queue['concurrentLimit']} at once")
    if queue.get("rateLimit"):
        about.append(f"\nat most {queue['rateLimit']} in {format_duration(queue.get('rateWindowMs', 0))}")
    if verdicts := queue.get("verdicts"):
        counts = ", ".join(f"{count:,} {_VERDICTS.get(name, name)}" for name, count in sorted(verdicts.items()))
        about.append(f"\nreports since the start: {counts}")
    if problem := queue.get("problem"):
        about.append(f"\n{escape(problem['sentence'])}. {escape(problem.get('remedy') or '')}", style="red")
    return Group(about, _workers(frame._replace(queues=[queue]), room))


def _table(first: str, *more: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", expand=True)
    table.add_column(first, ratio=1, no_wrap=True, overflow="ellipsis")
    for name in more:
        table.add_column(name, no_wrap=True, justify="right", overflow="ellipsis")
    return table


def _format_since(frame: Frame, at_ms: int | None) -> str:
    return "" if at_ms is None else format_duration(frame.now_ms - at_ms)


#: With --once or --json, the server has to answer within this time.
FRAME_WITHIN_S = 3.0


def top(
    url: Url = None,
    once: Annotated[bool, typer.Option("--once", help="Print one frame and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one frame as JSON.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds between two frames.")] = 1.0,
) -> None:
    """Watch the queues, workers and leases of a server.

    Keys: q quits, s changes the sort order, w shows workers, l shows leases,
    j and k move the selection, Enter opens a row.
    """
    configuration = make_configuration(url)
    live = not once and not as_json and sys.stdin.isatty() and sys.stdout.isatty()
    with silence_logger("conductor.client.http.access_token"):
        try:
            asyncio.run(_watch(configuration, interval) if live else _one_frame(configuration, as_json))
        except ConductorError as error:
            raise UserError(f"cannot read from {configuration.shown_host}: {describe_error(error)}") from None


async def _one_frame(configuration: Configuration, as_json: bool) -> None:
    try:
        async with asyncio.timeout(FRAME_WITHIN_S), open_client(configuration) as api:
            frame = await read_frame(api, configuration)
    except TimeoutError:
        raise UserError(f"{configuration.shown_host} has not answered within {FRAME_WITHIN_S:g} s") from None
    if as_json:
        print_line(json.dumps(frame.to_dict()))
        return
    screen = Screen(escape(configuration.shown_host))
    screen.frame = frame
    make_console().print(screen.draw())


async def _watch(configuration: Configuration, interval_s: float) -> None:
    screen = Screen(escape(configuration.shown_host))
    keys: asyncio.Queue[str] = asyncio.Queue()
    console = Console(highlight=False)
    loop, keyboard = asyncio.get_running_loop(), sys.stdin.fileno()
    with _single_keys(keyboard), Live(console=console, screen=True, auto_refresh=False) as live:
        loop.add_reader(keyboard, _read_keys, keyboard, keys)
        try:
            async with open_client(configuration) as api:
                looking = asyncio.create_task(_keep_looking(screen, api, configuration, interval_s, keys))
                try:
                    while True:
                        live.update(screen.draw(height=console.height), refresh=True)
                        if not screen.press(await keys.get()):
                            return
                finally:
                    looking.cancel()
        finally:
            loop.remove_reader(keyboard)


def _read_keys(keyboard: int, keys: asyncio.Queue[str]) -> None:
    """Read all pressed keys. An arrow key is one key of several characters."""
    read = os.read(keyboard, 64).decode(errors="replace")
    for key in re.findall(r"\x1b\[[A-Z]|[\s\S]", read):
        keys.put_nowait(key)


async def _keep_looking(
    screen: Screen, api: Any, configuration: Configuration, interval_s: float, keys: asyncio.Queue[str]
) -> None:
    """Read the server at each interval. After an error, show the error and keep trying."""
    while True:
        try:
            screen.frame, screen.error = await read_frame(api, configuration), None
        except ConductorError as error:
            screen.error = escape(f"cannot read from {configuration.shown_host}: {describe_error(error)}")
        keys.put_nowait("")  # an empty key redraws the screen
        await asyncio.sleep(interval_s)


@contextmanager
def _single_keys(keyboard: int) -> Iterator[None]:
    """Deliver keys without waiting for Enter, and restore the terminal after the block."""
    before = termios.tcgetattr(keyboard)
    try:
        tty.setcbreak(keyboard)
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSAFLUSH, before)
