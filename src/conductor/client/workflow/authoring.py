"""Workflows as Python blocks: steps are calls, and what Python would do with values the workflow does when it runs.

    with workflow("order", inputs={"id": str, "sku": str}) as order:
        price = quote(sku=order.input("sku"))
        pay = charge(order_id=order.input("id"), amount=price.total)
        with switch(pay.status) as case:
            with case("paid"):
                ship(order_id=order.input("id"))
        order.returns(receipt=pay.receipt)

`quote`, `charge` and `ship` are decorated workers. Their parameters and what they return are checked when the block
runs. Everything here makes the same objects as the classes under `conductor.client.workflow.task`, and the same JSON.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, ParamSpec, TypeVar, overload

from conductor.client.worker.worker_interface import undecorate
from conductor.client.workflow.authoring_errors import WorkflowError, suggest_name
from conductor.client.workflow.conductor_workflow import ConductorWorkflow
from conductor.client.workflow.declared_types import DeclaredType, read_input_types
from conductor.client.workflow.executor.workflow_executor import WorkflowExecutor
from conductor.client.workflow.reference import Reference, to_plain_value
from conductor.client.workflow.step_blocks import StepBlock, get_innermost_block, open_block
from conductor.client.workflow.step_signature import to_json_value
from conductor.client.workflow.task.do_while_task import DoWhileTask, get_for_loop_condition
from conductor.client.workflow.task.fork_task import ForkTask
from conductor.client.workflow.task.set_variable_task import SetVariableTask
from conductor.client.workflow.task.sub_workflow_task import SubWorkflowTask
from conductor.client.workflow.task.switch_task import SwitchTask
from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.terminate_task import TerminateTask, WorkflowStatus
from conductor.client.workflow.task.wait_task import WaitForDurationTask, WaitTask, WaitUntilTask
from conductor.client.workflow.worker_step import make_worker_step

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=TaskInterface)

_ENDINGS = (WorkflowStatus.COMPLETED, WorkflowStatus.FAILED, WorkflowStatus.TERMINATED)


def workflow(
    name: str,
    *,
    version: int | None = None,
    description: str | None = None,
    inputs: Any = None,
    returns: Any = None,
    executor: WorkflowExecutor | None = None,
) -> ConductorWorkflow:
    """A new workflow, without a timeout unless one is set.

    Args:
        name: Under which it is registered.
        version: 1 if not said.
        description: For people.
        inputs: What it takes: a dict of names to types, or one type with fields (a dataclass, a model). Then
            `workflow.input("...")` must name one of them.
        returns: What it gives: a type with fields. `returns(...)` must fill it, and `run` returns one.
        executor: The server to register and start it on; from `OrkesClients.get_workflow_executor()`.
    """
    if not name or not isinstance(name, str):
        raise WorkflowError(f"a workflow needs a name, got {name!r}")
    made = ConductorWorkflow(executor, name, version, description).timeout_seconds(0)
    if inputs is not None:
        made._input_type = read_input_types(inputs)
        if made._input_type is not None:
            made.input_parameters(list(made._input_type.schema.get("properties", {})))
    if returns is not None:
        made._output_type = DeclaredType(returns)
    return made


@overload
def step(function: Callable[P, Awaitable[R]], task_ref_name: str | None = None) -> Callable[P, R]: ...
@overload
def step(function: Callable[P, R], task_ref_name: str | None = None) -> Callable[P, R]: ...
def step(function: Callable[..., Any], task_ref_name: str | None = None) -> Callable[..., Any]:
    """A decorated worker, ready to be called as a step under that reference name: `step(charge, "pay")(amount=5)`.

    A plain call does the same under a name of its own; this one gives it yours, and shows type checkers what an
    `async def` returns.
    """
    from conductor.client.worker import registry

    worker = registry.find_worker(function)
    if worker is None:
        name = getattr(function, "__name__", repr(function))
        raise WorkflowError(f"{name} is no worker: decorate it with @worker_task(task_definition_name={name!r})")
    task_name = worker.get_task_definition_name()

    def call(*args: Any, **kwargs: Any) -> Any:
        get_innermost_block(f"step({task_name})")
        return make_worker_step(undecorate(function), task_name, args, kwargs, task_ref_name)

    return call


def add(task: T) -> T:
    """Add a step made by one of the classes, such as `HttpTask`, and return it."""
    get_innermost_block(f"add({type(task).__name__})").append(task)
    return task


class Cases:
    """The cases of a switch: `with case("paid"):`, and `with case.otherwise():` when none fits."""

    def __init__(self, block: StepBlock, task: SwitchTask, allowed: list[str] | None) -> None:
        self._block = block
        self._task = task
        self._allowed = allowed

    @contextmanager
    def __call__(self, value: Any) -> Iterator[None]:
        """The steps when the value is this one."""
        name = _case_name(value)
        known = self._task._decision_cases
        if name in known:
            raise WorkflowError(f"switch {self._task.task_reference_name!r} has two cases {name!r}")
        if self._allowed is not None and name not in self._allowed:
            raise WorkflowError(
                f"the value of switch {self._task.task_reference_name!r} is never {name!r}; "
                f"{suggest_name(name, self._allowed)}"
            )
        known[name] = []
        yield from self._steps(known[name], f"case {name!r}")

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """The steps when no case fits."""
        if self._task._default_case:
            raise WorkflowError(f"switch {self._task.task_reference_name!r} has two otherwise blocks")
        yield from self._steps(self._task._default_case, "otherwise")

    def _steps(self, steps: list[Any], what: str) -> Iterator[None]:
        with open_block(StepBlock(self._block.workflow, steps)):
            yield
        if not steps:
            raise WorkflowError(f"{what} of switch {self._task.task_reference_name!r} has no steps")


@contextmanager
def switch(
    value: Any = None, *, script: str | None = None, task_ref_name: str | None = None, **inputs: Any
) -> Iterator[Cases]:
    """Choose between steps by a value (a reference, or a step), or by a JavaScript expression over the inputs.

    with switch(pay.status) as case:
        with case("paid"):
            ...
        with case.otherwise():
            ...
    """
    block = get_innermost_block("switch(...)")
    if (value is None) == (script is None):
        raise WorkflowError("switch takes a value, or script='...' with its inputs")
    ref = task_ref_name or block.make_unused_name("switch")
    if script is None:
        if inputs:
            raise WorkflowError(f"switch {ref!r} has inputs {sorted(inputs)}, which only a script can see")
        if not hasattr(type(value), "as_reference") and "${" not in str(value):
            raise WorkflowError(f"switch {ref!r} chooses by {value!r}, which is always the same: give it a reference")
        task = SwitchTask(ref, _text(value))
    else:
        task = SwitchTask(ref, script, use_javascript=True)
        task._input_parameters = inputs
    block.append(task)
    yield Cases(block, task, _values(value))
    if not task._decision_cases:
        raise WorkflowError(f"switch {ref!r} has no cases")


@contextmanager
def fork(task_ref_name: str | None = None) -> Iterator[Callable[[], Any]]:
    """Steps side by side; what follows waits for all of them.

    with fork() as branch:
        with branch():
            mail(...)
        with branch():
            text(...)
    """
    block = get_innermost_block("fork()")
    task = ForkTask(task_ref_name or block.make_unused_name("fork"), [])
    task._joins_all = True
    block.append(task)

    @contextmanager
    def branch() -> Iterator[None]:
        steps: list[Any] = []
        task._forked_tasks.append(steps)
        with open_block(StepBlock(block.workflow, steps)):
            yield
        if not steps:
            raise WorkflowError(f"a branch of fork {task.task_reference_name!r} has no steps")

    yield branch
    if len(task._forked_tasks) < 2:
        raise WorkflowError(f"fork {task.task_reference_name!r} has less than two branches: `with branch():` makes one")


@contextmanager
def loop(
    times: Any = None, *, script: str | None = None, task_ref_name: str | None = None, **inputs: Any
) -> Iterator[DoWhileTask]:
    """Repeat steps so many times (a number, or a reference to one), or while a JavaScript expression is true.

    with loop(times=3) as again:
        remind(number=again.iteration)

    A script sees the inputs as `$.name`, and the steps inside by their reference names.
    """
    block = get_innermost_block("loop(...)")
    if (times is None) == (script is None):
        raise WorkflowError("loop takes a number of times, or script='...' with its inputs")
    ref = task_ref_name or block.make_unused_name("loop")
    task = DoWhileTask(ref, _condition(ref, times) if script is None else script, [])
    counted = {} if times is None or isinstance(times, int) else {"times": times}
    task._input_parameters = {**counted, **inputs}
    block.append(task)
    with open_block(StepBlock(block.workflow, task._loop_over)):
        yield task
    if not task._loop_over:
        raise WorkflowError(f"loop {ref!r} has no steps")


def wait(
    seconds: float | timedelta | None = None,
    *,
    until: datetime | str | None = None,
    task_ref_name: str | None = None,
) -> WaitTask:
    """Wait for so long, or until a time; or, without either, until somebody completes the step from outside."""
    block = get_innermost_block("wait()")
    ref = task_ref_name or block.make_unused_name("wait")
    if seconds is not None and until is not None:
        raise WorkflowError(f"{ref!r} waits either for some seconds or until a time, not for both")
    duration_s = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
    if duration_s is not None and duration_s < 0:
        raise WorkflowError(f"{ref!r} cannot wait for {seconds!r} seconds")
    task: WaitTask
    if duration_s is not None:
        task = WaitForDurationTask(ref, round(duration_s))
    elif until is not None:
        when = until.strftime("%Y-%m-%d %H:%M %Z").strip() if isinstance(until, datetime) else until
        task = WaitUntilTask(ref, when)
    else:
        task = WaitTask(ref)
    block.append(task)
    return task


def set_variables(task_ref_name: str | None = None, **values: Any) -> SetVariableTask:
    """Set variables of the workflow; `workflow.variable("name")` refers to one."""
    block = get_innermost_block("set_variables(...)")
    if not values:
        raise WorkflowError("set_variables needs at least one: set_variables(attempts=1)")
    task = SetVariableTask(task_ref_name or block.make_unused_name("set_variables"))
    task._input_parameters = values
    block.append(task)
    return task


def terminate(status: WorkflowStatus | str, reason: str, task_ref_name: str | None = None, **output: Any) -> None:
    """End the workflow here: COMPLETED, FAILED or TERMINATED, with a reason and an output."""
    block = get_innermost_block("terminate(...)")
    if status not in _ENDINGS:
        raise WorkflowError(f"a workflow can end as {', '.join(_ENDINGS)}; not as {status!r}")
    task = TerminateTask(task_ref_name or block.make_unused_name("terminate"), WorkflowStatus(status), reason)
    if output:
        task.input_parameter("workflowOutput", output)
    block.append(task)


def sub_workflow(
    name: str, version: int | None = None, *, task_ref_name: str | None = None, **inputs: Any
) -> SubWorkflowTask:
    """Start a registered workflow, the latest version without `version`, and wait for it.

    A workflow of this program is called instead: `ship(order_id=...)`, and travels along.
    """
    block = get_innermost_block("sub_workflow(...)")
    task = SubWorkflowTask(task_ref_name or block.make_unused_name(name), name, version)
    task._input_parameters = inputs
    block.append(task)
    return task


def _condition(ref: str, times: Any) -> str:
    if isinstance(times, bool) or not isinstance(times, int):
        if isinstance(times, Reference) or hasattr(type(times), "as_reference"):
            return f"$.{ref}.iteration < $.times"
        raise WorkflowError(f"loop {ref!r} runs a number of times, got {times!r}")
    if times < 1:
        raise WorkflowError(f"loop {ref!r} runs at least once, got {times}")
    return get_for_loop_condition(ref, times)


def _case_name(value: Any) -> str:
    """How the server spells the value when it looks for its case."""
    plain_value = to_json_value(value)
    return str(plain_value).lower() if isinstance(plain_value, bool) else str(plain_value)


def _text(value: Any) -> str:
    return str(to_plain_value(value))


def _values(value: Any) -> list[str] | None:
    """The values that a reference may have, where its type has only a few."""
    coming = value.as_reference() if hasattr(type(value), "as_reference") else value
    value_type = coming.value_type if isinstance(coming, Reference) else None
    if value_type is None:
        return None
    names: list[str] = []
    for schema in value_type._alternatives():
        if "enum" not in schema and "const" not in schema:
            return None
        names += [_case_name(one) for one in schema.get("enum", [schema.get("const")])]
    return names
