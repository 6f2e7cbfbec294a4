"""The demo: a day in the shop, from the first order to the table, on a server of its own and on a given one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest

from conductor.client.configuration.configuration import Configuration
from conductor.client.metadata_client import MetadataClient
from conductor.coordinator import Coordinator
from conductor.demo.shop import RESPONSE_TIMEOUT_S, WORKFLOW, orders

pytestmark = pytest.mark.timeout(240)

#: Far more than it takes, also on a busy machine.
DEADLINE_S = 200.0
#: Every kind of order is among them.
ORDERS = 6


def demo(*options: str) -> list[str]:
    return [sys.executable, "-m", "conductor.cli", "demo", "--workflows", str(ORDERS), *options]


def ran(cwd: Path, **env: str) -> tuple[int, str]:
    done = subprocess.run(
        demo(), cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    return done.returncode, done.stdout + done.stderr


def row(output: str, task: str) -> list[str]:
    return next(line.split() for line in output.splitlines() if line.startswith(f"{task} "))


def test_every_order_ends_as_it_must_and_the_table_says_so(tmp_path: Path) -> None:
    assert {expected for _, expected in orders(ORDERS)} == {"COMPLETED", "FAILED", "TERMINATED"}
    assert any(order.trip_s > RESPONSE_TIMEOUT_S for order, expected in orders(ORDERS) if expected == "COMPLETED")
    status, output = ran(tmp_path)
    assert status == 0, output
    assert f"{ORDERS} of {ORDERS} orders have ended" in output
    assert f"{ORDERS} orders: 4 COMPLETED, 1 FAILED, 1 TERMINATED" in output
    # Every tenth order meets a bank that does not answer at first.
    assert row(output, "charge")[:4] == ["charge", "6", "1", "1"]
    # task, tasks, failed, retries, waited, took, COMMITTED, CANCELLED, REJECTED
    assert row(output, "validate")[6:] == ["6", "0", "0"]
    assert re.search(r"[1-9]\d* heartbeats .* leases lost: 1", output)
    assert (
        "To see the orders in the web UI: conductor-worker demo --keep\n"
        "To write workers: conductor-worker init my-project && cd my-project && conductor-worker dev my_project\n"
    ) in output
    assert "\x1b" not in output  # not a terminal: plain lines
    assert "Traceback" not in output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_demo_runs_unchanged_on_the_server_that_the_environment_names(tmp_path: Path) -> None:
    with Coordinator(tmp_path / "given.db") as server:
        status, output = ran(tmp_path, CONDUCTOR_SERVER_URL=server.url)
        assert status == 0, output
        assert f"server {server.url}" in output
        with MetadataClient(Configuration(server.url)) as metadata:
            assert metadata.get_workflow_def(WORKFLOW).name == WORKFLOW


def test_a_server_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    with Coordinator(tmp_path / "gone.db") as server:
        url = server.url
    status, output = ran(tmp_path, CONDUCTOR_SERVER_URL=url)
    assert status == 2
    assert "conductor-worker: the server cannot be used: " in output
    assert "Traceback" not in output


@pytest.mark.slow
def test_the_demo_with_keep_runs_until_told_to_end(tmp_path: Path) -> None:
    with subprocess.Popen(demo("--keep"), cwd=tmp_path, stdout=subprocess.PIPE, text=True) as program:
        stopper = threading.Timer(DEADLINE_S, program.kill)
        stopper.start()
        try:
            assert program.stdout is not None
            urls = []
            for line in program.stdout:
                urls += re.findall(r"curl -s (http://\S+)$", line.strip())
                if "Press Ctrl-C to stop" in line:
                    break
            assert len(urls) == 5
            for url in urls:
                with urlopen(url, timeout=60) as answer:
                    assert answer.status == 200
            children = psutil.Process(program.pid).children(recursive=True)
            program.send_signal(signal.SIGINT)
            assert program.wait(DEADLINE_S) == 0
        finally:
            stopper.cancel()
            program.kill()
    assert psutil.wait_procs(children, timeout=60)[1] == []
