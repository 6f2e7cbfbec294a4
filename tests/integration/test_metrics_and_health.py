"""Metrics of real worker processes agree with the server, and their health is truthful."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from conductor.client.automator.task_handler import TaskHandler
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.settings.authentication_settings import AuthenticationSettings
from conductor.client.configuration.settings.metrics_settings import MetricsSettings
from conductor.client.worker.worker import Worker
from conductor.testing import ConductorStub
from conductor.testing.ports import free_port


async def quick(n: int) -> int:
    if n % 5 == 0:
        raise ValueError(f"{n} is a multiple of five")
    return n


def quick_def(n: int) -> int:
    return n


async def blocks(n: int) -> int:
    time.sleep(n)
    return n


def dies(n: int) -> None:
    os._exit(3)


def count_of(text: str, sample: str, **labels: str) -> float:
    return sum(
        found.value
        for family in text_string_to_metric_families(text)
        for found in family.samples
        if found.name == sample and labels.items() <= found.labels.items()
    )


def wait_for(condition: Callable[[], object], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def _run_and_count(server: ConductorStub, directory: Path, tasks: int, kills: int) -> tuple[str, int]:
    """Run `tasks` tasks in four processes. Return the last metrics, and the number of tasks that ran at the kills."""
    workers = [Worker(f"w{number}", quick if number % 2 else quick_def, thread_count=5) for number in range(4)]
    settings = MetricsSettings(directory=str(directory), file_name="metrics.prom", update_interval=0.2)
    in_hand = 0
    with TaskHandler(workers=workers, configuration=Configuration(server.url), metrics_settings=settings) as handler:
        handler.start_processes()
        for number in range(tasks):
            server.add_task(f"w{number % 4}", {"n": number}, response_timeout_seconds=3600)
        for _ in range(kills):
            server.wait_results(tasks // 4, timeout=120)
            victim = handler.get_worker_process_status()["w1"]["pid"]
            os.kill(victim, signal.SIGKILL)
            in_hand += 5
        if kills:
            wait_for(lambda: handler.get_worker_process_status()["w1"]["restart_count"] == kills)
        wait_for(lambda: len(server.results) >= tasks - in_hand, timeout_s=200)
    return (directory / "metrics.prom").read_text(), in_hand


@pytest.mark.parametrize("tasks", [400, pytest.param(10_000, marks=pytest.mark.slow)])
def test_counts_agree_with_the_results_at_the_server(tmp_path: Path, tasks: int) -> None:
    with ConductorStub() as server:
        text, _ = _run_and_count(server, tmp_path, tasks, kills=0)
        results = server.results
    assert count_of(text, "task_execute_time_seconds_count") == len(results) == tasks
    failed = sum(result["status"] == "FAILED" for result in results)
    assert count_of(text, "task_execute_error_total", exception="ValueError") == failed > 0
    assert count_of(text, "task_verdict_total", verdict="COMMITTED") == tasks
    assert {tmp_path / "metrics.prom"} == set(tmp_path.iterdir()), "no file of an ended process is left"


@pytest.mark.slow
def test_a_killed_process_costs_no_more_than_what_it_had_in_hand(tmp_path: Path) -> None:
    with ConductorStub() as server:
        text, in_hand = _run_and_count(server, tmp_path, 10_000, kills=1)
        ledger = len(server.results)
    assert abs(count_of(text, "task_verdict_total", verdict="COMMITTED") - ledger) <= in_hand
    assert count_of(text, "worker_restarts_total", taskType="w1") == 1


class Watched:
    """A handler whose health is asked for over HTTP."""

    def __init__(self, configuration: Configuration, *workers: Worker) -> None:
        self.port = free_port()
        settings = MetricsSettings(http_port=self.port)
        self.handler = TaskHandler(workers=list(workers), configuration=configuration, metrics_settings=settings)

    def __enter__(self) -> Watched:
        self.handler.start_processes()
        return self

    def __exit__(self, *_: object) -> None:
        self.handler.stop_processes()

    def health(self) -> tuple[int, dict[str, Any]]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def becomes(self, status: int, state: str) -> None:
        def is_so() -> bool:
            code, report = self.health()
            return code == status and [worker["state"] for worker in report["workers"]] == [state]

        wait_for(is_so)


def test_p23_health_is_503_while_credentials_are_refused() -> None:
    with ConductorStub(auth=("key", "secret")) as server:
        wrong = Configuration(server.url, authentication_settings=AuthenticationSettings("key", "wrong"))
        with Watched(wrong, Worker("job", quick_def)) as watched:
            watched.becomes(503, "refused")


@pytest.mark.slow
def test_p23_health_is_503_while_the_server_is_gone_and_200_after() -> None:
    with ConductorStub() as server, Watched(Configuration(server.url), Worker("job", quick_def)) as watched:
        watched.becomes(200, "running")
        server.stop()
        watched.becomes(503, "unreachable")
        server.start()
        watched.becomes(200, "running")


@pytest.mark.slow
def test_p23_health_is_503_while_a_process_dies_again_and_again_and_200_after() -> None:
    with ConductorStub() as server, Watched(Configuration(server.url), Worker("job", dies)) as watched:
        watched.becomes(200, "running")
        for _ in range(3):
            server.add_task("job", {"n": 1})
        watched.becomes(503, "dead")
        watched.becomes(200, "running")


@pytest.mark.slow
def test_p23_health_is_503_while_the_event_loop_is_blocked_and_200_after() -> None:
    with ConductorStub() as server, Watched(Configuration(server.url), Worker("job", blocks)) as watched:
        watched.becomes(200, "running")
        server.add_task("job", {"n": 14})
        watched.becomes(503, "stuck")
        watched.becomes(200, "running")
        asyncio.run(server.until_results(1))
