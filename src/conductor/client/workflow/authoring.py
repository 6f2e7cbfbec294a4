"""Workflows as Python blocks: steps are calls, and the workflow evaluates conditions and values when it runs.

    with workflow("order", inputs={"id": str, "sku": str}) as order:
        price = quote(sku=order.input("sku"))
        pay = charge(order_id=order.input("id"), amount=price.total)
        with switch(pay.status) as case:
            with case("paid"):
                ship(order_id=order.input("id"))
        order.returns(receipt=pay.receipt)

`quote`, `charge` and `ship` are decorated workers. Their arguments and results are checked when the block runs. The
functions create the same objects as the classes in `conductor.client.workflow.task`, and the same JSON.
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
    inputs: object = None,
    returns: object = None,
    executor: WorkflowExecutor | None = None,
) -> ConductorWorkflow:
    """Make a new workflow, without a timeout.

    Args:
        name: The name of the definition.
        version: The version of the definition; 1 by default.
        description: A description for readers.
        inputs: The types of the inputs: a dict of names and types, or one type with fields, such as a dataclass.
            `workflow.input("...")` must then name one of them.
        returns: The type of the output, with fields. `returns(...)` must set them, and `run` returns an instance.
        executor: The connection to the server, from `OrkesClients.get_workflow_executor()`.

    Raises:
        WorkflowError: The name is empty.
    """
    if not name or not isinstance(name, str):
        raise WorkflowError(f"a workflow needs a name, got {name!r}")
    new = ConductorWorkflow(executor, name, version, description).timeout_seconds(0)
    if inputs is not None:
        new._input_type = read_input_types(inputs)
        if new._input_type is not None:
            new.input_parameters(list(new._input_type.schema.get("properties", {})))
    if returns is not None:
        new._output_type = DeclaredType(returns)
    return new


@overload
def step(function: Callable[P, Awaitable[R]], task_ref_name: str | None = None) -> Callable[P, R]: ...
@overload
def step(function: Callable[P, R], task_ref_name: str | None = None) -> Callable[P, R]: ...
def step(function: Callable[..., Any], task_ref_name: str | None = None) -> Callable[..., Any]:
    """Return a function that adds a step with this reference name: `step(charge, "pay")(amount=5)`.

    A direct call of the worker adds a step with a generated name. Use `step` to choose the name, or to show type
    checkers the result of an `async def`.

    Args:
        function: A decorated function.
        task_ref_name: The reference name of the step.

    Raises:
        WorkflowError: The function is not decorated with `@worker_task`.
    """
    from conductor.client.worker import registry

    worker = registry.find_worker(function)
    if worker is None:
        name = getattr(function, "__name__", repr(function))
        raise WorkflowError(f"{name} is not a worker: decorate it with @worker_task(task_definition_name={name!r})")
    task_name = worker.get_task_definition_name()

    def call(*args: Any, **kwargs: Any) -> Any:
        get_innermost_block(f"step({task_name})")
        return make_worker_step(undecorate(function), task_name, args, kwargs, task_ref_name)

    return call


def add(task: T) -> T:
    """Add a step of one of the task classes, such as `HttpTask`. Return the step."""
    get_innermost_block(f"add({type(task).__name__})").append(task)
    return task


class Cases:
    """The cases of a switch: `with case("paid"):`, and `with case.otherwise():` for all other values."""

    def __init__(self, block: StepBlock, task: SwitchTask, allowed: list[str] | None) -> None:
        self._block = block
        self._task = task
        self._allowed = allowed

    @contextmanager
    def __call__(self, value: object) -> Iterator[None]:
        """Add the steps for this value inside the block."""
        name = _format_case(value)
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
        """Add the steps for all other values inside the block."""
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
    value: object = None, *, script: str | None = None, task_ref_name: str | None = None, **inputs: object
) -> Iterator[Cases]:
    """Choose between steps by a value or by a JavaScript expression.

    Args:
        value: A reference or a step.
        script: A JavaScript expression, instead of a value. It sees the inputs as `$.name`.
        task_ref_name: The reference name of the switch.
        **inputs: The inputs of the script.

    Example:
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
            raise WorkflowError(f"switch {ref!r} chooses by {value!r}, which never changes: pass a reference")
        task = SwitchTask(ref, str(to_plain_value(value)))
    else:
        task = SwitchTask(ref, script, use_javascript=True)
        task._input_parameters = inputs
    block.append(task)
    yield Cases(block, task, _list_values(value))
    if not task._decision_cases:
        raise WorkflowError(f"switch {ref!r} has no cases")


@contextmanager
def fork(task_ref_name: str | None = None) -> Iterator[Callable[[], Any]]:
    """Run branches in parallel. The next step waits for all of them.

    Args:
        task_ref_name: The reference name of the fork.

    Example:
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
        raise WorkflowError(
            f"fork {task.task_reference_name!r} has fewer than two branches: add one with `with branch():`"
        )


@contextmanager
def loop(
    times: object = None, *, script: str | None = None, task_ref_name: str | None = None, **inputs: object
) -> Iterator[DoWhileTask]:
    """Repeat steps.

    Args:
        times: The number of iterations, or a reference to it.
        script: A JavaScript expression, instead of a number. The loop continues while it is true. It sees the inputs
            as `$.name` and the steps inside the loop by their reference names.
        task_ref_name: The reference name of the loop.
        **inputs: The inputs of the script.

    Example:
        with loop(times=3) as again:
            remind(number=again.iteration)
    """
    block = get_innermost_block("loop(...)")
    if (times is None) == (script is None):
        raise WorkflowError("loop takes a number of times, or script='...' with its inputs")
    ref = task_ref_name or block.make_unused_name("loop")
    task = DoWhileTask(ref, _make_condition(ref, times) if script is None else script, [])
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
    """Wait for a duration or until a time. Without either, wait until the step is completed through the API.

    Args:
        seconds: The duration.
        until: The time. A text has the form `2027-01-31 09:00`.
        task_ref_name: The reference name of the step.
    """
    block = get_innermost_block("wait()")
    ref = task_ref_name or block.make_unused_name("wait")
    if seconds is not None and until is not None:
        raise WorkflowError(f"{ref!r} waits either for a duration or until a time, not for both")
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


def set_variables(task_ref_name: str | None = None, **values: object) -> SetVariableTask:
    """Set variables of the workflow. `workflow.variable("name")` refers to a variable."""
    block = get_innermost_block("set_variables(...)")
    if not values:
        raise WorkflowError("set_variables needs at least one: set_variables(attempts=1)")
    task = SetVariableTask(task_ref_name or block.make_unused_name("set_variables"))
    task._input_parameters = values
    block.append(task)
    return task


def terminate(status: WorkflowStatus | str, reason: str, task_ref_name: str | None = None, **output: object) -> None:
    """End the workflow.

    Args:
        status: COMPLETED, FAILED or TERMINATED.
        reason: The reason that the execution shows.
        task_ref_name: The reference name of the step.
        **output: The output of the workflow.
    """
    block = get_innermost_block("terminate(...)")
    if status not in _ENDINGS:
        raise WorkflowError(f"a workflow can end as {', '.join(_ENDINGS)}; not as {status!r}")
    task = TerminateTask(task_ref_name or block.make_unused_name("terminate"), WorkflowStatus(status), reason)
    if output:
        task.input_parameter("workflowOutput", output)
    block.append(task)


def sub_workflow(
    name: str, version: int | None = None, *, task_ref_name: str | None = None, **inputs: object
) -> SubWorkflowTask:
    """Start a registered workflow and wait for its end.

    If this program defines the workflow, call it instead, as in `ship(order_id=...)`. The parent then contains its
    definition.

    Args:
        name: The name of the workflow.
        version: The version; the latest one by default.
        task_ref_name: The reference name of the step.
        **inputs: The input of the workflow.
    """
    block = get_innermost_block("sub_workflow(...)")
    task = SubWorkflowTask(task_ref_name or block.make_unused_name(name), name, version)
    task._input_parameters = inputs
    block.append(task)
    return task


def _make_condition(ref: str, times: object) -> str:
    if isinstance(times, bool) or not isinstance(times, int):
        if isinstance(times, Reference) or hasattr(type(times), "as_reference"):
            return f"$.{ref}.iteration < $.times"
        raise WorkflowError(f"loop {ref!r} runs a number of times, got {times!r}")
    if times < 1:
        raise WorkflowError(f"loop {ref!r} runs at least once, got {times}")
    return get_for_loop_condition(ref, times)


def _format_case(value: object) -> str:
    """Return the value as the server compares it with the cases."""
    plain_value = to_json_value(value)
    return str(plain_value).lower() if isinstance(plain_value, bool) else str(plain_value)


def _list_values(value: Any) -> list[str] | None:
    """Return the values that a reference may have; None if its type is not an enum."""
    target = value.as_reference() if hasattr(type(value), "as_reference") else value
    value_type = target.value_type if isinstance(target, Reference) else None
    if value_type is None:
        return None
    names: list[str] = []
    for schema in value_type._alternatives():
        if "enum" not in schema and "const" not in schema:
            return None
        names += [_format_case(one) for one in schema.get("enum", [schema.get("const")])]
    return names
