"""Which workers a handler runs."""

import sys
from typing import Any

import pytest

from conductor.client.worker import registry
from conductor.client.worker.worker import Worker
from conductor.client.worker.worker_choice import choose_workers
from conductor.client.worker.worker_loader import auto_discover_workers
from conductor.client.worker.worker_task import worker_task


@pytest.fixture
def package(tmp_path: Any, monkeypatch: Any) -> Any:
    (tmp_path / "chosen_shop").mkdir()
    (tmp_path / "chosen_shop" / "__init__.py").write_text("")
    (tmp_path / "chosen_shop" / "orders.py").write_text(
        "from conductor.client.worker.worker_task import worker_task\n"
        "@worker_task(task_definition_name='found')\n"
        "def found(x: int): return x\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield "chosen_shop"
    for name in [name for name in sys.modules if name.startswith("chosen_shop")]:
        del sys.modules[name]


def names(workers: Any) -> Any:
    return [worker.get_task_definition_name() for worker in workers]


def decorated(name: Any) -> Any:
    @worker_task(task_definition_name=name)
    def function(x: int) -> Any:
        return x

    return function


def test_p30_discovery_then_a_handler_runs_each_worker_once(package: Any) -> None:
    loader = auto_discover_workers(packages=[package], print_summary=False)
    assert names(choose_workers(None, None, None)) == ["found"]
    assert names(choose_workers(loader.get_workers(), True, [package])) == ["found"]


def test_p30_one_worker_may_stand_beside_modules_to_import(package: Any) -> None:
    alone = Worker("alone", lambda task: None)
    assert names(choose_workers(alone, None, [package])) == ["alone", "found"]
    assert names(choose_workers(alone, None, package)) == ["alone", "found"]


def test_p30_the_caller_s_lists_are_left_alone(package: Any) -> None:
    workers, modules = [Worker("alone", lambda task: None)], [package]
    before = (list(workers), list(modules))
    choose_workers(workers, True, modules).clear()
    assert (workers, modules) == before


def test_only_the_given_workers_unless_scanning_was_asked_for() -> None:
    decorated("in_registry")
    alone = Worker("alone", lambda task: None)
    assert names(choose_workers([alone], None, None)) == ["alone"]
    assert names(choose_workers([alone], False, None)) == ["alone"]
    assert names(choose_workers([alone], True, None)) == ["alone", "in_registry"]
    assert names(choose_workers(None, None, None)) == ["in_registry"]
    assert choose_workers(None, False, None) == []


def test_a_decorated_function_is_its_worker() -> None:
    function = decorated("in_registry")
    assert names(choose_workers([function, function], True, None)) == ["in_registry"]
    assert names(choose_workers(function, None, None)) == ["in_registry"]


def test_an_object_that_is_not_a_worker_is_named() -> None:
    with pytest.raises(TypeError, match="got <function"):
        choose_workers([lambda task: None], None, None)


def test_of_two_workers_for_one_task_type_the_last_one_runs(caplog: pytest.LogCaptureFixture) -> None:
    two = [Worker("same", lambda task: None), Worker("same", lambda task: None)]
    assert choose_workers(two, None, None) == [two[1]]
    assert "task type 'same' has 2 workers" in caplog.text
    with pytest.raises(registry.DuplicateWorkerError, match="same"):
        choose_workers(two, None, None, strict_registry=True)
    two = [Worker("same", lambda task: None), Worker("same", lambda task: None, domain="eu")]
    assert len(choose_workers(two, None, None)) == 2
