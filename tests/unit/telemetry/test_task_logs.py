"""Log records of a task carry its ids and can become its task logs."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Iterator
from contextvars import copy_context

import pytest

from conductor.client.context.task_context import TaskContext, task_context
from conductor.client.http.models.task import Task
from conductor.client.telemetry.task_logs import MAX_TASK_LOGS, TaskLogFilter, TaskLogs

FORMAT = "%(task_type)s %(task_id)s %(workflow_id)s %(attempt)s: %(message)s"


def a_context() -> TaskContext:
    return TaskContext(
        Task(task_id="id-1", task_def_name="greet", workflow_instance_id="wf-1", retry_count=2), task_log_level="DEBUG"
    )


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Output of the root logger's handler, in a format that needs the task."""
    stream, root = io.StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(stream), root.level
    handler.setFormatter(logging.Formatter(FORMAT))
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


def test_the_handler_records_of_a_task_carry_its_ids(stream: io.StringIO) -> None:
    with TaskLogs(), task_context(a_context()):
        logging.getLogger("shop").info("hello")
    assert stream.getvalue() == "greet id-1 wf-1 3: hello\n"


def test_the_handler_records_outside_a_task_still_format(stream: io.StringIO) -> None:
    with TaskLogs():
        logging.getLogger("shop").info("hello")
    assert stream.getvalue() == "- - - -: hello\n"


def test_the_handler_records_of_a_thread_of_the_task_carry_its_ids(stream: io.StringIO) -> None:
    with TaskLogs(), task_context(a_context()):
        context = copy_context()
        thread = threading.Thread(target=lambda: context.run(logging.getLogger("shop").info, "hello"))
        thread.start()
        thread.join()
    assert stream.getvalue() == "greet id-1 wf-1 3: hello\n"


def test_a_users_own_extra_stays(stream: io.StringIO) -> None:
    with TaskLogs(), task_context(a_context()):
        logging.getLogger("shop").info("hello", extra={"task_id": "mine"})
    assert stream.getvalue() == "greet mine wf-1 3: hello\n"


def test_handlers_of_other_loggers_too() -> None:
    logger, stream = logging.getLogger("shop.audit"), io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter(FORMAT))
    logger.addHandler(handler)
    logger.propagate = False
    try:
        with TaskLogs(), task_context(a_context()):
            logger.warning("hello")
    finally:
        logger.removeHandler(handler)
        logger.propagate = True
    assert stream.getvalue() == "greet id-1 wf-1 3: hello\n"


def test_the_log_handler_leaves_no_trace(stream: io.StringIO) -> None:
    root = logging.getLogger()
    before = list(root.handlers), [list(handler.filters) for handler in root.handlers], logging.getLogRecordFactory()
    logs = TaskLogs("INFO")
    logs.install()
    assert len(root.handlers) == len(before[0]) + 1
    logs.uninstall()
    after = list(root.handlers), [list(handler.filters) for handler in root.handlers], logging.getLogRecordFactory()
    assert after == before


def test_the_filter_works_without_the_handler(stream: io.StringIO) -> None:
    for handler in logging.getLogger().handlers:
        if getattr(handler, "stream", None) is stream:
            handler.addFilter(TaskLogFilter())
    with task_context(a_context()):
        logging.getLogger("shop").info("hello")
    assert stream.getvalue() == "greet id-1 wf-1 3: hello\n"


def test_the_handler_records_from_a_level_up_become_logs_of_the_task(stream: io.StringIO) -> None:
    context = a_context()
    with TaskLogs("WARNING"), task_context(context):
        logging.getLogger("shop").info("small talk")
        logging.getLogger("shop").warning("stock is low: %d", 3)
        try:
            raise ValueError("no stock")
        except ValueError:
            logging.getLogger("shop").exception("gave up")
        logging.getLogger("conductor.client.automator.engine").error("ours")
    logging.getLogger("shop").error("after the task")
    lines = [entry.log or "" for entry in context.logs]
    assert lines[0] == "WARNING shop: stock is low: 3"
    assert lines[1].startswith("ERROR shop: gave up\nTraceback")
    assert lines[1].endswith("ValueError: no stock")
    assert len(lines) == 2


def test_without_the_option_nothing_is_added(stream: io.StringIO) -> None:
    context = a_context()
    with TaskLogs(), task_context(context):
        logging.getLogger("shop").error("hello")
    assert context.logs == []


def test_a_chatty_task_is_cut_short(stream: io.StringIO) -> None:
    context = a_context()
    with TaskLogs("INFO"), task_context(context):
        for i in range(2 * MAX_TASK_LOGS):
            logging.getLogger("shop").info("line %d", i)
    assert len(context.logs) == MAX_TASK_LOGS
    assert context.logs[-1].log == "more than 1000 lines: later ones are only in the log of the worker"


def test_a_level_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="LOUD"):
        TaskLogs("LOUD")
