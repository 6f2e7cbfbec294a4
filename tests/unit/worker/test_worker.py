"""Worker, WorkerInterface, the decorator and its registry: describing a worker, and calling it directly."""

from __future__ import annotations

import asyncio
import functools
import inspect
import pickle
import sys
from typing import Any

import pytest

from conductor.client.context.task_context import TaskInProgress, get_task_context
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.client.worker import registry
from conductor.client.worker.exception import NonRetryableException
from conductor.client.worker.registry import DuplicateWorkerError
from conductor.client.worker.worker import Worker, get_code_options, runs_coroutine
from conductor.client.worker.worker_choice import choose_workers
from conductor.client.worker.worker_config import ConfigurationError, resolve_worker_config
from conductor.client.worker.worker_interface import WorkerInterface
from conductor.client.worker.worker_task import WorkerTask, worker_task

TASK = Task(task_id="t-1", workflow_instance_id="w-1", task_def_name="job", input_data={"x": 20, "y": 1})


def add(x: int, y: int) -> dict[str, int]:
    return {"sum": x + y}


async def add_async(x: int, y: int) -> dict[str, int]:
    await asyncio.sleep(0)
    return add(x, y)


class TestConstruction:
    def test_the_name_alone_will_do(self) -> None:
        worker = Worker("job")
        assert worker.get_task_definition_name() == worker.task_definition_name == "job"
        assert worker.execute_function is None

    @pytest.mark.parametrize("name", ["", None, 5])
    def test_a_worker_without_a_name_says_what_is_missing(self, name: Any) -> None:
        with pytest.raises(TypeError, match="name of its task type"):
            Worker(name)

    @pytest.mark.parametrize(
        ("option", "default"),
        [
            ("thread_count", 1),
            ("poll_interval_millis", 100),
            ("domain", None),
            ("poll_timeout", 100),
            ("lease_extend_enabled", False),
            ("register_task_def", False),
            ("overwrite_task_def", True),
            ("strict_schema", False),
            ("paused", False),
        ],
    )
    def test_options_read_as_their_defaults(self, option: str, default: Any) -> None:
        assert getattr(Worker("job"), option) == default

    def test_options_of_a_worker_are_keywords(self) -> None:
        worker = Worker("job", add, thread_count=7, domain="vip", task_def=TaskDef(name="job", retry_count=9))
        assert (worker.thread_count, worker.domain, worker.get_domain()) == (7, "vip", "vip")
        assert worker.task_def is not None
        assert worker.task_def.retry_count == 9

    def test_a_wrong_option_is_named_with_the_right_ones(self) -> None:
        with pytest.raises(TypeError, match=r"no option 'thread_cuont'.*'thread_count'"):
            Worker("job", add, thread_cuont=3)  # type: ignore[call-arg]

    @pytest.mark.parametrize("take", [lambda **o: Worker("job", add, **o), lambda **o: worker_task("job", **o)])
    def test_a_mistyped_option_is_told_the_nearest_one(self, take: Any) -> None:
        with pytest.raises(TypeError, match=r"no option 'thread_cont'; did you mean 'thread_count'\?"):
            take(thread_cont=3)

    @pytest.mark.parametrize(
        ("option", "meant"),
        [
            ("timeout", "timeout_s"),
            ("timeout_seconds", "timeout_s"),
            ("retry_delay", "retry_delay_s"),
            ("retry_delay_seconds", "retry_delay_s"),
            ("retry_count", "retries"),
            ("max_retries", "retries"),
        ],
    )
    def test_the_options_of_the_task_definition_are_offered_too(self, option: str, meant: str) -> None:
        wrong: Any = {option: 5}
        with pytest.raises(
            TypeError, match=rf"no option '{option}'; did you mean '{meant}'\?.* retries, retry_delay_s,"
        ):
            worker_task("job", **wrong)

    def test_an_unknown_attribute_is_an_attribute_error(self) -> None:
        with pytest.raises(AttributeError, match="nonsense"):
            getattr(Worker("job"), "nonsense")  # noqa: B009

    @pytest.mark.parametrize("options", [{"poll_interval": 250}, {"poll_interval_millis": 250}])
    def test_the_interval_has_an_older_spelling(self, options: dict[str, int]) -> None:
        worker = Worker("job", add, **options)  # type: ignore[arg-type]
        assert worker.poll_interval_millis == 250
        assert worker.get_polling_interval_in_seconds() == 0.25

    def test_arguments_may_come_in_the_order_of_conductor_python(self) -> None:
        template = TaskDef(retry_count=2)
        worker = Worker("job", add, 250, "dom", "me", 3, True, 50, True, True, template, False, True, False)
        assert get_code_options(worker) == {
            "poll_interval_millis": 250,
            "domain": "dom",
            "worker_id": "me",
            "thread_count": 3,
            "register_task_def": True,
            "poll_timeout": 50,
            "lease_extend_enabled": True,
            "paused": True,
            "overwrite_task_def": False,
            "strict_schema": True,
            "register_schema": False,
        }
        assert worker.task_def is worker.task_def_template is template

    def test_the_template_may_be_set_under_its_older_name(self) -> None:
        worker = Worker("job", add)
        worker.task_def_template = TaskDef(retry_count=7)
        assert worker.task_def is not None
        assert worker.task_def.retry_count == 7

    def test_an_option_may_be_set_later(self) -> None:
        worker = Worker("job", add, poll_interval_millis=100)
        worker.paused, worker.poll_interval = True, 250
        assert get_code_options(worker) == {"paused": True, "poll_interval_millis": 250}
        assert (worker.poll_interval, worker.get_polling_interval_in_seconds()) == (250, 0.25)

    def test_the_worker_id_reads_as_what_will_be_sent(self) -> None:
        worker = Worker("job", add)
        assert worker.worker_id == worker.get_identity()
        assert get_code_options(worker) == {}, "a child process makes up its own"

    @pytest.mark.parametrize("name", ["a\nb", "a\0", "  "])
    def test_a_name_that_no_server_takes_is_refused(self, name: str) -> None:
        with pytest.raises(ValueError, match="has no control characters"):
            Worker(name)
        with pytest.raises(ValueError, match="has no control characters"):
            worker_task(name)

    def test_a_worker_of_an_object_that_cannot_be_called_is_refused(self) -> None:
        with pytest.raises(TypeError, match="worker 'job' needs a function to call, got 5"):
            Worker("job", 5)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"worker_task\('job'\) decorates a function, got 5"):
            worker_task("job")(5)  # type: ignore[type-var]

    def test_a_domain_that_is_no_text_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match=r"worker 'job', domain: \['a'\] is not allowed"):
            worker_task("job", domain=["a"])(add)  # type: ignore[arg-type]

    def test_a_worker_can_be_pickled(self) -> None:
        travelled = pickle.loads(pickle.dumps(Worker("job", add, thread_count=3)))
        assert (travelled.task_definition_name, travelled.execute_function, travelled.thread_count) == ("job", add, 3)

    def test_the_repr_of_a_worker_names_its_task_type(self) -> None:
        assert repr(Worker("job", add)) == "Worker('job', add)"

    def test_the_identity_is_of_the_process_unless_it_is_given(self) -> None:
        """P32: worker ids tell processes apart."""
        assert Worker("a").get_identity() == Worker("b").get_identity()
        assert Worker("a", worker_id="me").get_identity() == "me"

    def test_the_process_id_is_in_the_identity(self) -> None:
        import os

        assert str(os.getpid()) in Worker("a").get_identity()


class TestDirectCalls:
    """`Worker.execute(task)` from a program: whatever the function does, a result comes back."""

    @pytest.mark.parametrize("function", [add, add_async, functools.partial(add, y=1)], ids=["def", "async", "partial"])
    def test_direct_calls_give_a_result(self, function: Any) -> None:
        result = Worker("job", function, worker_id="me").execute(TASK)
        assert (result.status, result.output_data) == (TaskResultStatus.COMPLETED, {"sum": 21})
        assert (result.task_id, result.workflow_instance_id, result.worker_id) == ("t-1", "w-1", "me")

    @pytest.mark.parametrize(
        ("error", "status"),
        [
            (ValueError("bad"), TaskResultStatus.FAILED),
            (NonRetryableException("bad"), TaskResultStatus.FAILED_WITH_TERMINAL_ERROR),
        ],
    )
    def test_direct_calls_give_a_result_for_an_exception(self, error: Exception, status: TaskResultStatus) -> None:
        def fail() -> None:
            raise error

        result = Worker("job", fail).execute(TASK)
        assert result.status is status
        assert "bad" in (result.reason_for_incompletion or "")
        assert "raise error" in result.logs[0].log

    def test_direct_calls_have_a_context(self) -> None:
        def talk() -> str:
            get_task_context().add_log("hello")
            return get_task_context().task_id

        result = Worker("job", talk).execute(TASK)
        assert result.output_data == {"result": "t-1"}
        assert [entry.log for entry in result.logs] == ["hello"]

    def test_direct_calls_know_the_task_in_progress(self) -> None:
        result = Worker("job", lambda: TaskInProgress(5, {"half": True})).execute(TASK)
        assert (result.status, result.callback_after_seconds) == (TaskResultStatus.IN_PROGRESS, 5)

    def test_a_bad_input_is_a_terminal_failure(self) -> None:
        result = Worker("job", add).execute(Task(task_id="t", input_data={"x": "no", "y": 1}))
        assert result.status is TaskResultStatus.FAILED_WITH_TERMINAL_ERROR
        assert "x" in (result.reason_for_incompletion or "")


class TestClasses:
    class Adder(WorkerInterface):
        thread_count = 5

        def execute(self, task: Task) -> TaskResult:
            result = self.get_task_result_from_task(task)
            result.add_output_data("sum", add(**task.input_data)["sum"])
            return result

    def test_subclasses_take_the_name(self) -> None:
        adder = self.Adder("job")
        assert adder.get_task_definition_name() == "job"
        assert adder.execute(TASK).output_data == {"sum": 21}

    def test_a_result_for_a_task_knows_who_and_what(self) -> None:
        result = self.Adder("job").get_task_result_from_task(TASK)
        assert (result.task_id, result.workflow_instance_id) == ("t-1", "w-1")
        assert result.status is TaskResultStatus.COMPLETED

    def test_a_worker_class_must_define_execute(self) -> None:
        with pytest.raises(TypeError, match="execute"):
            WorkerInterface("job")  # type: ignore[abstract]

    def test_options_are_attributes_or_getters(self) -> None:
        class Chatty(self.Adder):  # type: ignore[name-defined,misc]
            def get_domain(self) -> str:
                return "vip"

            def get_polling_interval_in_seconds(self) -> float:
                return 0.5

        assert get_code_options(Chatty("job")) == {"thread_count": 5, "domain": "vip", "poll_interval_millis": 500}

    def test_options_may_be_attributes_of_the_class(self) -> None:
        class Slow(self.Adder):  # type: ignore[name-defined,misc]
            paused = True
            poll_interval = 250

        assert get_code_options(Slow("job")) == {"thread_count": 5, "paused": True, "poll_interval_millis": 250}
        assert Slow("job").get_polling_interval_in_seconds() == 0.25

    def test_options_may_be_set_by_the_constructor(self) -> None:
        class Own(self.Adder):  # type: ignore[name-defined,misc]
            def __init__(self, name: str) -> None:
                super().__init__(name)
                self.poll_interval = 250
                self.worker_id = "me"

        own = Own("job")
        assert get_code_options(own) == {"thread_count": 5, "poll_interval_millis": 250, "worker_id": "me"}
        assert (own.get_identity(), own.poll_interval, own.paused) == ("me", 250, False)

    def test_a_class_with_several_task_types_is_a_worker_for_each(self) -> None:
        adder = self.Adder(["one", "two"])
        assert adder.task_definition_names == ["one", "two"]
        workers = choose_workers([adder], None, None)
        assert [worker.get_task_definition_name() for worker in workers] == ["one", "two"]
        assert all(get_code_options(worker) == {"thread_count": 5} for worker in workers)

    @pytest.mark.parametrize("names", [[], ["one", ""], [None]])
    def test_each_of_several_task_types_needs_a_name(self, names: Any) -> None:
        with pytest.raises(TypeError, match="name of its task type"):
            self.Adder(names)

    def test_the_environment_wins_over_the_class(self) -> None:
        adder = self.Adder("job")
        env = {"CONDUCTOR_WORKER_JOB_THREAD_COUNT": "9"}
        config = resolve_worker_config("job", get_code_options(adder), env=env)
        assert config.thread_count == 9

    def test_a_worker_subclass_may_write_execute(self) -> None:
        class Old(Worker):
            def execute(self, task: Task) -> TaskResult:
                return TaskResult(task_id=task.task_id, output_data={"old": True})

        assert Old("job").execute(TASK).output_data == {"old": True}


class TestKindOfFunction:
    def test_these_are_coroutine_functions(self) -> None:
        class AsyncCall:
            async def __call__(self, x: int) -> int:
                return x

        class AsyncClass(WorkerInterface):
            async def execute(self, task: Task) -> dict[str, int]:
                return {}

        for worker in (
            Worker("a", add_async),
            Worker("b", functools.partial(add_async, y=1)),
            Worker("c", AsyncCall()),
            AsyncClass("d"),
        ):
            assert runs_coroutine(worker), worker

    def test_these_are_not_coroutine_functions(self) -> None:
        for worker in (Worker("a", add), Worker("b", functools.partial(add, y=1)), TestClasses.Adder("c"), Worker("d")):
            assert not runs_coroutine(worker), worker


class TestDecorator:
    def test_the_decorator_leaves_calls_of_the_function_as_they_were(self) -> None:
        decorated = worker_task(task_definition_name="job")(add)
        assert decorated(2, 3) == add(2, 3)
        assert inspect.signature(decorated) == inspect.signature(add)

    def test_the_decorator_registers_the_worker_with_its_options(self) -> None:
        job = worker_task("job", thread_count=4, domain="vip", poll_interval=250, poll_timeout=50)(add)
        (worker,) = registry.list_workers()
        assert worker.execute_function is job
        assert (worker.thread_count, worker.domain) == (4, "vip")
        assert (worker.poll_interval_millis, worker.poll_timeout) == (250, 50)

    def test_an_option_that_is_not_given_does_not_override_the_environment(self) -> None:
        worker_task("job")(add)
        assert get_code_options(registry.list_workers()[0]) == {}

    @pytest.mark.parametrize("name", ["", None, add])
    def test_the_decorator_needs_a_name(self, name: Any) -> None:
        with pytest.raises(TypeError, match="task_definition_name="):
            worker_task(name)

    def test_a_wrong_option_is_an_error_at_once(self) -> None:
        with pytest.raises(TypeError, match="treads"):
            worker_task("job", treads=4)(add)  # type: ignore[call-arg]

    def test_arguments_may_come_in_the_order_of_conductor_python(self) -> None:
        worker_task("job", 250, "vip", "me", 3, True, 50, True, TaskDef(retry_count=1), False, True, False)(add)
        (worker,) = registry.list_workers()
        assert get_code_options(worker) == {
            "poll_interval_millis": 250,
            "domain": "vip",
            "worker_id": "me",
            "thread_count": 3,
            "register_task_def": True,
            "poll_timeout": 50,
            "lease_extend_enabled": True,
            "overwrite_task_def": False,
            "strict_schema": True,
            "register_schema": False,
        }
        assert worker.task_def is not None

    @pytest.mark.parametrize(("seconds", "millis"), [(0, 250), (2, 2000)])
    def test_the_decorator_has_an_older_name(self, seconds: int, millis: int) -> None:
        WorkerTask("job", 250, "vip", "me", seconds, 4)(add)
        (worker,) = registry.list_workers()
        assert (worker.poll_interval_millis, worker.thread_count, worker.domain) == (millis, 4, "vip")

    def test_paused_is_not_an_option_of_it(self) -> None:
        with pytest.raises(TypeError, match="paused"):
            worker_task("job", paused=True)(add)  # type: ignore[call-arg]

    def test_methods_keep_their_type(self) -> None:
        @worker_task("job")
        async def work(x: int) -> int:
            return x

        if sys.version_info >= (3, 12):
            assert inspect.iscoroutinefunction(work)
        assert asyncio.run(work(3)) == 3


class TestRegistry:
    def test_the_same_function_again_replaces_its_older_self(self) -> None:
        """Notebooks run a cell twice; modules are reloaded."""

        def make(answer: int) -> Any:
            def work() -> int:
                return answer

            return worker_task("job")(work)

        make(1)
        newer = make(2)
        (worker,) = registry.list_workers()
        assert worker.execute_function is newer

    def test_the_last_of_two_functions_for_one_type_runs_and_a_warning_names_both(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        worker_task("job")(add)
        worker_task("job")(add_async)
        (worker,) = choose_workers(None, None, None)
        assert worker is registry.find_worker(add_async)
        (warning,) = caplog.messages
        both = f"{add.__module__}.add and {add.__module__}.add_async"
        assert warning.startswith(f"task type 'job' has 2 workers: {both}; the last one runs")

    def test_the_registry_with_strict_registry_two_functions_for_one_type_are_an_error(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        worker_task("job")(add)
        worker_task("job")(add_async)
        monkeypatch.setenv("CONDUCTOR_WORKER_STRICT_REGISTRY", "true")
        with pytest.raises(DuplicateWorkerError, match="'job'.*add.*add_async"):
            choose_workers(None, None, None)

    def test_a_given_worker_is_run_rather_than_a_decorated_one(self) -> None:
        worker_task("job")(add)
        mine = Worker("job", add_async)
        assert choose_workers([mine], True, None) == [mine]

    def test_a_child_process_finds_the_one_that_it_is_to_run(self) -> None:
        worker_task("job")(add)
        assert registry.find_worker_in_module(add.__module__, "job", None) is registry.find_worker(add)
        assert registry.find_worker_in_module("elsewhere", "job", None) is None

    def test_domains_tell_them_apart(self) -> None:
        worker_task("job")(add)
        worker_task("job", domain="vip")(add_async)
        assert len(registry.list_workers()) == 2

    def test_the_registry_finds_the_worker_of_a_function(self) -> None:
        worker_task("job")(add)
        assert registry.find_worker(add) is registry.list_workers()[0]
        assert registry.find_worker(add_async) is None


class TestChoosingWorkers:
    """The workers of a handler: `workers=`, the decorated ones, or both."""

    def test_without_workers_the_decorated_ones_run(self) -> None:
        worker_task("job")(add)
        assert [w.get_task_definition_name() for w in choose_workers(None, None, None)] == ["job"]

    def test_given_workers_run_alone(self) -> None:
        worker_task("job")(add)
        mine = Worker("mine", add)
        assert choose_workers([mine], None, None) == [mine]

    def test_given_and_decorated_workers_run_once_each(self) -> None:
        worker_task("job")(add)
        mine = Worker("mine", add)
        chosen = choose_workers([mine, add], True, None)
        assert [w.get_task_definition_name() for w in chosen] == ["mine", "job"]

    def test_no_decorated_worker_runs_when_scanning_is_off(self) -> None:
        worker_task("job")(add)
        assert choose_workers(None, False, None) == []

    def test_a_single_worker_needs_no_list(self) -> None:
        worker_task("job")(add)
        for one in (Worker("job", add), add, TestClasses.Adder("job")):
            assert len(choose_workers(one, None, None)) == 1

    def test_the_callers_list_stays_as_it_was(self) -> None:
        worker_task("job")(add)
        given = [Worker("mine", add)]
        choose_workers(given, True, None)
        assert len(given) == 1

    def test_an_object_that_is_not_a_worker_is_refused_with_its_name(self) -> None:
        with pytest.raises(TypeError, match="decorated with @worker_task.*lambda"):
            choose_workers([lambda: 1], None, None)
        with pytest.raises(TypeError, match="42"):
            choose_workers([42], None, None)  # type: ignore[list-item]

    def test_one_task_type_has_one_worker(self) -> None:
        two = [Worker("job", add), Worker("job", add_async)]
        assert choose_workers(two, None, None) == [two[1]]
        with pytest.raises(DuplicateWorkerError, match="2 workers"):
            choose_workers(two, None, None, strict_registry=True)
