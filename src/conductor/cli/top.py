"""`conductor-worker top`: queues and workers, live."""

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
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from conductor.cli.console import quiet, say, standard_output
from conductor.cli.live_state import Frame, look, queue_name
from conductor.cli.server import asking, why
from conductor.cli.support import Url, UserError, configuration_of
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_rest import ConductorError
from conductor.waiting import span
from conductor.wire import shown

#: What rows can be sorted by, in the order of the key `s`; those that somebody must look at come first always.
SORTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "waiting": lambda queue: -queue["ready"],
    "in hand": lambda queue: -queue.get("inHand", 0),
    "rate": lambda queue: -(queue.get("stats") or {}).get("endedPerMin", 0),
    "name": queue_name,
}
KEYS = "q ends  s sorts  w workers  j/k choose  Enter looks closer"
_ARROWS = {"\x1b[A": "k", "\x1b[B": "j", "\r": "\n"}


class Screen:
    """What is looked at, and how."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._sort = "waiting"
        self._chosen = 0
        self._view = "queues"
        self.frame: Frame | None = None
        self.trouble: str | None = None

    def press(self, key: str) -> bool:
        """A key was pressed. False: that was all."""
        match _ARROWS.get(key, key):
            case "q":
                return False
            case "s":
                names = list(SORTS)
                self._sort = names[(names.index(self._sort) + 1) % len(names)]
            case "w":
                self._view = "queues" if self._view == "workers" else "workers"
            case "j":
                self._chosen += 1
            case "k":
                self._chosen = max(0, self._chosen - 1)
            case "\n":
                self._view = "queues" if self._view == "closer" else "closer"
            case "\x1b":
                self._view = "queues"
        return True

    def draw(self, *, height: int | None = None) -> RenderableType:
        """The screen as it is now; no more rows than fit."""
        if self.frame is None:
            return Text(self.trouble or f"asking {self._host} …")
        parts: list[RenderableType] = [self._bar(self.frame), Text("")]
        room = None if height is None else max(1, height - 8)
        queues = sorted(self.frame.queues, key=lambda queue: (not queue.get("problem"), SORTS[self._sort](queue)))
        self._chosen = min(self._chosen, max(0, len(queues) - 1))
        if self._view == "workers":
            parts.append(_workers(self.frame, room))
        elif self._view == "closer" and queues:
            parts.append(_closer(self.frame, queues[self._chosen], room))
        else:
            first = 0 if room is None else max(0, self._chosen - room + 1)
            chosen = None if height is None else self._chosen - first
            parts.append(_queues(self.frame, queues[first:][:room], chosen))
        if height is not None:
            parts.append(Text(f"\n{KEYS}", style="dim", no_wrap=True, overflow="ellipsis"))
        return Group(*parts)

    def _bar(self, frame: Frame) -> Text:
        seen = frame.overview
        bar = Text(self._host, style="bold", overflow="ellipsis", no_wrap=True)
        bar.append(f"  by {self._sort}\n", style="dim")
        numbers = [f"{seen[key]:,} {words}" for key, words in _NUMBERS.items() if key in seen]
        bar.append("  ".join(numbers) or "nothing is known")
        problems = sum(1 for queue in frame.queues if queue.get("problem"))
        if problems:
            bar.append(f"  {problems} queues nobody takes from", style="bold red")
        if not seen.get("healthy", True):
            bar.append(f"\nnot healthy: {shown(str(seen.get('health')))}", style="bold red")
        if self.trouble or frame.not_told:
            bar.append(f"\n{self.trouble or frame.not_told}", style="yellow")
        return bar


_NUMBERS = {
    "running": "running",
    "failedLately": "failed in the last hour",
    "waiting": "waiting",
    "inHand": "in hand",
}


def _queues(frame: Frame, queues: list[dict[str, Any]], chosen: int | None) -> RenderableType:
    if not queues:
        return Text("There are no queues yet: nothing waits, and nobody polls.")
    table = _table("queue", "waiting", "oldest", "in hand", "/min", "p50", "polled")
    for number, queue in enumerate(queues):
        stats = queue.get("stats") or {}
        polled = "parked" if queue.get("parked") else _since(frame, queue.get("lastPollMs"))
        table.add_row(
            queue_name(queue),
            f"{queue['ready']:,}",
            _since(frame, queue.get("oldestMs")),
            f"{queue['inHand']:,}" if "inHand" in queue else "?",
            f"{stats['endedPerMin']:g}" if stats else "",
            span(stats["runP50Ms"]) if stats.get("runP50Ms") is not None else "",
            "NOBODY" if queue.get("problem") else polled,
            style="reverse" if number == chosen else ("red" if queue.get("problem") else ""),
        )
    return table


def _workers(frame: Frame, room: int | None) -> RenderableType:
    table = _table("worker", "queue", "in hand", "oldest")
    for one in frame.workers()[:room]:
        held = _since(frame, one.get("oldestStartedMs"))
        table.add_row(shown(one["worker"]), shown(one["queue"]), str(one["inHand"]), held)
    return table if table.row_count else Text("No worker has polled or has anything in hand.")


def _closer(frame: Frame, queue: dict[str, Any], room: int | None) -> RenderableType:
    about = Text(
        f"{queue_name(queue)}: {queue['ready']:,} waiting, {queue.get('delayed', 0):,} due later", style="bold"
    )
    if queue.get("concurrentLimit"):
        about.append(f"\nat most {queue['concurrentLimit']} at once")
    if queue.get("rateLimit"):
        about.append(f"\nat most {queue['rateLimit']} in {span(queue.get('rateWindowMs', 0))}")
    if problem := queue.get("problem"):
        about.append(f"\n{shown(problem['sentence'])}. {shown(problem.get('remedy') or '')}", style="red")
    return Group(about, _workers(frame._replace(queues=[queue]), room))


def _table(first: str, *more: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", expand=True)
    table.add_column(first, ratio=1, no_wrap=True, overflow="ellipsis")
    for name in more:
        table.add_column(name, no_wrap=True, justify="right", overflow="ellipsis")
    return table


def _since(frame: Frame, at_ms: int | None) -> str:
    return "" if at_ms is None else span(frame.now_ms - at_ms)


def top(
    url: Url = None,
    once: Annotated[bool, typer.Option("--once", help="Show one frame, and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One frame as JSON, for programs.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds between two looks.")] = 1.0,
) -> None:
    """Watch queues and workers: what waits and since when, who polls, what is in hand, how fast it goes.

    Keys: q ends, s sorts by another column, w shows workers, j and k choose a queue, Enter looks closer at it.
    """
    configuration = configuration_of(url)
    live = not once and not as_json and sys.stdin.isatty() and sys.stdout.isatty()
    with quiet("conductor.client.http.token"):
        try:
            asyncio.run(_watch(configuration, interval) if live else _one_frame(configuration, as_json))
        except ConductorError as error:
            raise UserError(f"{configuration.shown_host} cannot be asked: {why(error)}") from None


async def _one_frame(configuration: Configuration, as_json: bool) -> None:
    async with asking(configuration) as api:
        frame = await look(api, configuration)
    if as_json:
        say(json.dumps(frame.to_dict()))
        return
    screen = Screen(shown(configuration.shown_host))
    screen.frame = frame
    standard_output().print(screen.draw())


async def _watch(configuration: Configuration, interval_s: float) -> None:
    screen = Screen(shown(configuration.shown_host))
    keys: asyncio.Queue[str] = asyncio.Queue()
    console = Console(highlight=False)
    loop, keyboard = asyncio.get_running_loop(), sys.stdin.fileno()
    with _single_keys(keyboard), Live(console=console, screen=True, auto_refresh=False) as live:
        loop.add_reader(keyboard, _read_keys, keyboard, keys)
        try:
            async with asking(configuration) as api:
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
    """Several keys may come at once; an arrow is one key of several characters."""
    read = os.read(keyboard, 64).decode(errors="replace")
    for key in re.findall(r"\x1b\[[A-Z]|[\s\S]", read):
        keys.put_nowait(key)


async def _keep_looking(
    screen: Screen, api: Any, configuration: Configuration, interval_s: float, keys: asyncio.Queue[str]
) -> None:
    """A server that goes away is said, and asked again."""
    while True:
        try:
            screen.frame, screen.trouble = await look(api, configuration), None
        except ConductorError as error:
            screen.trouble = shown(f"{configuration.shown_host} cannot be asked: {why(error)}")
        keys.put_nowait("")  # nobody pressed it: draw again
        await asyncio.sleep(interval_s)


@contextmanager
def _single_keys(keyboard: int) -> Iterator[None]:
    """Keys as they are pressed, without Enter; whatever happens, the terminal is as it was afterwards."""
    before = termios.tcgetattr(keyboard)
    try:
        tty.setcbreak(keyboard)
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSAFLUSH, before)
