"""A page in a real browser. Console errors and requests to other hosts fail the test that caused them."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any, Literal

from playwright.sync_api import Browser, Locator, Page, expect

#: A busy machine takes its time.
TIMEOUT_MS = 30_000
HEIGHTS = {375: 812, 390: 844, 1360: 800, 1440: 900, 1920: 1080}
AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
expect.set_options(timeout=TIMEOUT_MS)


class WatchedPage:
    """A browser tab on a coordinator."""

    def __init__(self, browser: Browser, root: str, width: int, theme: Literal["light", "dark"] = "light") -> None:
        self.root = root
        self.width = width
        size: Any = {"width": width, "height": HEIGHTS[width]}
        self._context = browser.new_context(viewport=size, color_scheme=theme, locale="en-GB", timezone_id="UTC")
        self._context.set_default_timeout(TIMEOUT_MS)
        self.tab: Page = self._context.new_page()
        self.errors: list[str] = []
        self.foreign: list[str] = []
        #: Answers that a test means to get, such as the 404 of something that is not there.
        self.expected_statuses: set[int] = set()
        self.requests: list[str] = []
        self.tab.on("console", self._console)
        self.tab.on("pageerror", lambda error: self.errors.append(str(error)))
        self.tab.on("request", lambda request: self._request(request.url))

    def __enter__(self) -> WatchedPage:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._context.close()
        if kind is None:
            assert self.errors == []
            assert self.foreign == []

    def _console(self, message: Any) -> None:
        expected = any(f"status of {status}" in message.text for status in self.expected_statuses)
        if message.type in ("error", "warning") and not expected:
            self.errors.append(f"{message.type}: {message.text}")

    def _request(self, url: str) -> None:
        self.requests.append(url)
        if not url.startswith(self.root):
            self.foreign.append(url)

    # -- what a reader does

    def go(self, path: str) -> None:
        self.tab.goto(self.root + path)
        self.tab.locator(".view, dialog").first.wait_for()

    def button(self, name: str) -> Locator:
        return self.tab.get_by_role("button", name=name, exact=True)

    def link(self, name: str | re.Pattern[str]) -> Locator:
        return self.tab.get_by_role("link", name=name)

    def confirm(self, name: str) -> None:
        """The button of the question that is asked."""
        self.tab.get_by_role("dialog").get_by_role("button", name=name, exact=True).click()

    def node(self, ref: str) -> Locator:
        """A task in the graph."""
        return self.tab.locator(f'.graph a[data-ref="{ref}"]')

    def says(self, text: str) -> None:
        """Expect a message in the corner of the page."""
        expect(self.tab.locator("#said")).to_contain_text(text)

    def status_is(self, status: str) -> None:
        """The status of the workflow that is looked at."""
        expect(self.tab.locator(".title .head > .status")).to_contain_text(status)

    # -- what must always hold

    def faults(self) -> list[str]:
        """Return the serious and critical findings of axe-core."""
        self.tab.evaluate(AXE)
        found = self.tab.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        return [
            f"{one['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(self.tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
