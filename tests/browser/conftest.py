"""Fixtures: the system's Chromium, a coordinator with sample workflows, and pages that report every error."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

# `make test-browser` installs what these need; `make test` neither needs it nor runs them.
if importlib.util.find_spec("playwright") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    from playwright.sync_api import Browser, sync_playwright

    from conductor.coordinator import Coordinator
    from tests.browser.sample_workflows import Samples
    from tests.browser.watched_page import WatchedPage

    CHROMIUM = next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )

    def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
        here = Path(__file__).parent
        for item in items:
            if here in item.path.parents:
                item.add_marker(pytest.mark.browser)
                item.add_marker(pytest.mark.xdist_group("browser"))  # one browser, one samples

    @pytest.fixture(scope="session")
    def browser() -> Iterator[Browser]:
        if CHROMIUM is None:
            if os.environ.get("CI"):
                pytest.fail("there is no Chromium; Debian: apt-get install chromium")
            pytest.skip("there is no Chromium on this machine")
        quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
        with sync_playwright() as playwright:
            found = playwright.chromium.launch(executable_path=CHROMIUM, args=quiet)
            yield found
            found.close()

    @pytest.fixture(scope="session")
    def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
        with Coordinator(tmp_path_factory.mktemp("db") / "coordinator.db") as found:
            yield found

    @pytest.fixture(scope="session")
    def samples(coordinator: Coordinator) -> Samples:
        """The samples of all tests: what one of them changes, it makes first."""
        found = Samples(coordinator.url)
        found.create()
        return found

    @pytest.fixture(scope="module")
    def pictured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Samples]:
        """Samples that no test has changed."""
        with Coordinator(tmp_path_factory.mktemp("pictured") / "coordinator.db") as found:
            samples = Samples(found.url)
            samples.create()
            yield samples

    @pytest.fixture
    def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Samples]:
        """A coordinator that asks for key and secret."""
        with Coordinator(auth_key="key", auth_secret="secret") as found:
            shown = Samples(found.url).call("POST", "/token", {"keyId": "key", "keySecret": "secret"})
            samples = Samples(found.url, shown["token"])
            samples.define()
            yield samples

    @pytest.fixture(params=[375, 1920])
    def width(request: pytest.FixtureRequest) -> int:
        return int(request.param)

    @pytest.fixture
    def page(browser: Browser, samples: Samples, width: int) -> Iterator[WatchedPage]:
        with WatchedPage(browser, samples.root, width) as found:
            yield found
