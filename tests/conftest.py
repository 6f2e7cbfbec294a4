"""What every test can rely on: an environment without our variables, and hypothesis without a stopwatch."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import settings

settings.register_profile("no stopwatch", deadline=None)
settings.load_profile("no stopwatch")
# A shell that runs the suite in the background has it ignore Ctrl-C, and with it every program that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_variables_of_ours(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in [name for name in os.environ if name.lower().startswith("conductor")]:
        monkeypatch.delenv(name)
    # The journal of a test is the test's own, and nobody's home is written to.
    monkeypatch.setenv("CONDUCTOR_WORKER_JOURNAL_DIR", str(tmp_path_factory.mktemp("journal")))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Figures that tests measured (`record_property("figures", text)`), also when they ran in another process."""
    for report in [report for kind in ("passed", "failed") for report in terminalreporter.getreports(kind)]:
        for text in [value for name, value in report.user_properties if name == "figures"]:
            terminalreporter.write_line(f"\n{report.nodeid}\n{text}")
