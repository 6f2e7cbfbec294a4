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

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, ParamSpec, TypeVar, overload

from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.client.worker.worker_interface import undecorate
from conductor.client.workflow.authoring_errors import WorkflowError, suggest_name
from conductor.client.workflow.conductor_workflow import ConductorWorkflow
from conductor.client.workflow.declared_types import DeclaredInputs, DeclaredType
from conductor.client.workflow.each_step import EachTask, find_each
from conductor.client.workflow.executor.workflow_executor import WorkflowExecutor
from conductor.client.workflow.reference import Reference, make_reference, to_plain_value
from conductor.client.workflow.script_syntax import find_syntax_error
from conductor.client.workflow.step_blocks import StepBlock, get_innermost_block, open_block, with_statement
from conductor.client.workflow.step_signature import to_json_value
from conductor.client.workflow.task.do_while_task import DoWhileTask, get_for_loop_condition
from conductor.client.workflow.task.fork_task import ForkTask
from conductor.client.workflow.task.set_variable_task import SetVariableTask
from conductor.client.workflow.task.sub_workflow_task import SubWorkflowTask
from conductor.client.workflow.task.switch_task import SwitchTask
from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.terminate_task import TerminateTask, WorkflowStatus
from conductor.client.workflow.task.timeout_policy import TimeoutPolicy
from conductor.client.workflow.task.wait_task import WaitForDurationTask, WaitTask, WaitUntilTask
from conductor.client.workflow.value_type import ValueType
from conductor.client.workflow.worker_step import make_worker_step
from conductor.client.workflow.workflow_cron import read_cron

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=TaskInterface)
#: The type of the elements of a list.
E = TypeVar("E")

#: Matches a name that a script reads, such as `$.size`. Calls such as `$.hasOwnProperty(...)` do not match.
_SCRIPT_NAME = re.compile(r"(?<![\w$.\\'\"])\$\.([A-Za-z_]\w*)\b(?!\s*\()")
_INTEGER = re.compile(r"-?\d+")
_ENDINGS = (WorkflowStatus.COMPLETED, WorkflowStatus.FAILED, WorkflowStatus.TERMINATED)


def workflow(
    name: str,
    *,
    version: int | None = None,
    description: str | None = None,
    inputs: object = None,
    returns: object = None,
    on_failure: ConductorWorkflow | str | None = None,
    timeout_s: int | None = None,
    cron: str | None = None,
    time_zone: str | None = None,
    executor: WorkflowExecutor | None = None,
) -> ConductorWorkflow:
    """Make a new workflow.

    Args:
        name: The name of the definition.
        version: The version of the definition; 1 by default.
        description: A description for readers.
        inputs: The types of the inputs: a dict of names and types, or one type with fields, such as a dataclass.
            `workflow.input("...")` must then name one of them. The definition contains their JSON schema, and the
            server rejects starts with other input.
        returns: The type of the output, with fields. `returns(...)` must set them, and `run` returns an instance.
        on_failure: The workflow that the server starts when this one fails or times out: a workflow of this program, or
            the name of a registered one.
        timeout_s: The longest time in seconds, after which the workflow ends as TIMED_OUT. No limit by default.
        cron: Start the workflow at these times. The expression has six fields, beginning with the seconds, such as
            `0 0 2 * * *` for every day at 2:00. Registering the workflow saves the schedule under its name.
        time_zone: The time zone of `cron`, such as `Europe/Berlin`; UTC by default.
        executor: The connection to the server, from `OrkesClients.get_workflow_executor()`.

    Raises:
        WorkflowError: The name is empty, or a value is not possible.
    """
    if not name or not isinstance(name, str):
        raise WorkflowError(f"a workflow needs a name, got {name!r}")
    new = ConductorWorkflow(executor, name, version, description).timeout_seconds(0)
    if inputs is not None:
        new._inputs = DeclaredInputs(inputs)
        new.input_parameters(list(new._inputs.properties))
    if returns is not None:
        new._output_type = DeclaredType(returns)
    if isinstance(on_failure, ConductorWorkflow):
        new._on_failure = on_failure
    if on_failure is not None:
        new.failure_workflow(on_failure if isinstance(on_failure, str) else on_failure.name)
    if timeout_s is not None:
        if type(timeout_s) is not int or timeout_s < 1:
            raise WorkflowError(f"timeout_s of workflow {name!r} must be a whole number of seconds, got {timeout_s!r}")
        new.timeout_seconds(timeout_s).timeout_policy(TimeoutPolicy.TIME_OUT_WORKFLOW)
    new._cron = read_cron(name, cron, time_zone)
    return new


@overload
def step(
    function: Callable[P, Awaitable[R]],
    task_ref_name: str | None = None,
    *,
    optional: bool = False,
    retries: int | None = None,
) -> Callable[P, R]: ...
@overload
def step(
    function: Callable[P, R], task_ref_name: str | None = None, *, optional: bool = False, retries: int | None = None
) -> Callable[P, R]: ...
def step(
    function: Callable[..., Any],
    task_ref_name: str | None = None,
    *,
    optional: bool = False,
    retries: int | None = None,
) -> Callable[..., Any]:
    """Return a function that adds a step with this reference name: `step(charge, "pay")(amount=5)`.

    A direct call of the worker adds a step with a generated name. Use `step` to choose the name, or to show type
    checkers the result of an `async def`.

    Args:
        function: A decorated function, or a workflow that becomes a sub-workflow.
        task_ref_name: The reference name of the step.
        optional: Continue the workflow if the step fails.
        retries: The number of retries of this step, instead of that of its task type. A sub-workflow has none.

    Raises:
        WorkflowError: The function is not decorated with `@worker_task`.
    """
    from conductor.client.worker import registry

    child = function if isinstance(function, ConductorWorkflow) else None
    worker = registry.find_worker(function)
    if child is not None:
        task_name = str(child.name)
    elif worker is not None:
        task_name = worker.get_task_definition_name()
    else:
        name = getattr(function, "__name__", repr(function))
        raise WorkflowError(f"{name} is not a worker: decorate it with @worker_task(task_definition_name={name!r})")
    if retries is not None and (type(retries) is not int or retries < 0):
        raise WorkflowError(f"step({task_name}): retries must be a whole number of at least 0, got {retries!r}")

    def call(*args: Any, **kwargs: Any) -> Any:
        get_innermost_block(f"step({task_name})")
        if child is not None:
            made = child(*args, task_ref_name=task_ref_name, **kwargs)
        else:
            made = make_worker_step(undecorate(function), task_name, args, kwargs, task_ref_name)
        if optional:
            made.optional = True
        made._retry_count = retries
        return made

    return call


def add(task: T) -> T:
    """Add a step of one of the task classes, such as `HttpTask`. Return the step."""
    get_innermost_block(f"add({type(task).__name__})").append(task)
    return task


class Cases:
    """The cases of a switch: `with case("paid"):`, and `with case.otherwise():` for all other values."""

    def __init__(self, block: StepBlock, task: SwitchTask, value: object) -> None:
        self._block = block
        self._task = task
        value_type = _find_value_type(value)
        self._allowed = None if value_type is None else _list_values(value_type)
        self._holds_integers = value_type is not None and value_type.types() == {"integer"}

    @contextmanager
    def __call__(self, value: object) -> Iterator[None]:
        """Open the block of the steps that run for this value."""
        name = _format_case(value)
        known = self._task._decision_cases
        if name in known:
            raise WorkflowError(f"switch {self._task.task_reference_name!r} has two cases {name!r}")
        if self._allowed is not None and name not in self._allowed:
            raise WorkflowError(
                f"the value of switch {self._task.task_reference_name!r} is never {name!r}; "
                f"{suggest_name(name, self._allowed)}"
            )
        if self._holds_integers and not _INTEGER.fullmatch(name):
            raise WorkflowError(
                f"the value of switch {self._task.task_reference_name!r} is never {name!r}, because it is an integer"
            )
        known[name] = []
        yield from self._steps(known[name], f"case {name!r}")

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """Open the block of the steps that run for all other values."""
        if self._task._default_case:
            raise WorkflowError(f"switch {self._task.task_reference_name!r} has two otherwise blocks")
        yield from self._steps(self._task._default_case, "otherwise")

    def _steps(self, steps: list[Any], what: str) -> Iterator[None]:
        with open_block(StepBlock(self._block.workflow, steps)):
            yield
        if not steps:
            raise WorkflowError(f"{what} of switch {self._task.task_reference_name!r} has no steps")


@with_statement
def switch(
    value: object = None, *, script: str | None = None, task_ref_name: str | None = None, **inputs: object
) -> Iterator[Cases]:
    """Choose between steps by a value or by a JavaScript expression.

    Args:
        value: A reference or a step.
        script: A JavaScript expression, instead of a value. The expression sees the inputs as `$.name`.
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
        _check_script(f"switch {ref!r}", script, inputs)
        task = SwitchTask(ref, script, use_javascript=True)
        task._input_parameters = inputs
    block.append(task)
    yield Cases(block, task, value)
    if not task._decision_cases:
        raise WorkflowError(f"switch {ref!r} has no cases: add one with `with case(value):`")


@with_statement
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


@with_statement
def each(items: Iterable[E], task_ref_name: str | None = None) -> Iterator[E]:
    """Run steps once for each element of a list, in parallel. The next step waits for all of them.

    If the block has several steps, they become a sub-workflow for each element. `collect` returns their results.

    Args:
        items: A reference to a list.
        task_ref_name: The reference name of the block.

    Example:
        with each(order.input("lines")) as line:
            parcel = pack(sku=line.sku, count=line.count)
        ship(parcels=collect(parcel))
    """
    block = get_innermost_block("each(...)")
    ref = task_ref_name or block.make_unused_name("each")
    items_type = _read_list_type(f"the each block {ref!r}", items)
    task = EachTask(ref, items, block.workflow.name)
    block.append(task)
    item: Any = make_reference(ref, "item", value_type=items_type)
    with open_block(StepBlock(block.workflow, task._steps)):
        yield item
    if not task._steps:
        raise WorkflowError(f"the each block {ref!r} has no steps")


def collect(value: E) -> list[E]:
    """Return the list of the results of a step inside an `each` block, in the order of the elements.

    Args:
        value: A step of the block, or a field of its output.

    Raises:
        WorkflowError: The value is not a result inside an `each` block of this workflow.
    """
    block = get_innermost_block("collect(...)")
    target: Any = value
    reference = target.as_reference() if hasattr(type(value), "as_reference") else value
    name = str.__str__(reference)[2:].partition(".")[0] if isinstance(reference, Reference) else ""
    owner = find_each(block.workflow._tasks, name)
    if owner is None or not isinstance(reference, Reference):
        raise WorkflowError(f"collect(...) takes a step inside an each block, or a field of its output; got {value!r}")
    found: Any = owner.collect(reference)
    return found  # type: ignore[no-any-return]


@with_statement
def loop(
    times: object = None,
    *,
    items: object = None,
    script: str | None = None,
    task_ref_name: str | None = None,
    **inputs: object,
) -> Iterator[LoopBlock]:
    """Repeat steps.

    Args:
        times: The number of iterations, or a reference to it.
        items: A reference to a list, instead of a number. The iterations run one after the other; `item` is the element
            and `index` its number, from 0. To run them in parallel, use `each`.
        script: A JavaScript expression, instead of a number. The loop continues while the expression is true. The
            expression sees the inputs as `$.name`, and the steps inside the loop by their reference names.
        task_ref_name: The reference name of the loop.
        **inputs: The inputs of the script.

    Example:
        with loop(times=3) as again:
            remind(number=again.iteration)
        with loop(items=order.input("lines")) as again:
            pack(sku=again.item.sku)
    """
    block = get_innermost_block("loop(...)")
    if sum(one is not None for one in (times, items, script)) != 1:
        raise WorkflowError("loop takes a number of times, or items=..., or script='...' with its inputs")
    ref = task_ref_name or block.make_unused_name("loop")
    if items is not None:
        items_type = _read_list_type(f"loop {ref!r}", items)
        task = LoopBlock(ref, "true", items=str(to_plain_value(items)), item_type=items_type)
    else:
        task = LoopBlock(ref, _make_condition(ref, times) if script is None else script)
    counted = {} if times is None or isinstance(times, int) else {"times": times}
    task._input_parameters = {**counted, **inputs}
    block.append(task)
    with open_block(StepBlock(block.workflow, task._loop_over)):
        yield task
    if not task._loop_over:
        raise WorkflowError(f"loop {ref!r} has no steps")
    if script is not None:
        _check_script(f"loop {ref!r}", script, {*task._input_parameters, *block.workflow.reference_names()})


class LoopBlock(DoWhileTask):
    """The step that a `loop` block adds. Its properties refer to values of the current iteration."""

    def __init__(
        self, task_ref_name: str, condition: str, items: str | None = None, item_type: ValueType | None = None
    ) -> None:
        super().__init__(task_ref_name, condition, [])
        self._items = items
        self._item_type = item_type

    @property
    def iteration(self) -> Any:
        """The number of the iteration, from 1."""
        return self.output("iteration")

    @property
    def item(self) -> Any:
        """The element of `items` in this iteration."""
        self._require_items("item")
        return make_reference(self._task_reference_name, "output", "loopItem", value_type=self._item_type)

    @property
    def index(self) -> Any:
        """The index of the element, from 0."""
        self._require_items("index")
        return self.output("loopIndex")

    def _require_items(self, name: str) -> None:
        if self._items is None:
            raise WorkflowError(
                f"loop {self._task_reference_name!r} goes through no list, so it has no {name}: use loop(items=...) "
                "for a list, or `iteration`, the number of the iteration"
            )

    def to_workflow_task(self) -> WorkflowTask:
        """Return the loop with its steps as the server expects it."""
        task = super().to_workflow_task()
        task.items = self._items
        return task


def wait(
    seconds: float | timedelta | None = None,
    *,
    until: datetime | str | None = None,
    task_ref_name: str | None = None,
) -> WaitTask:
    """Add a step that waits for a duration or until a time. Without either, it waits until the API completes it.

    Args:
        seconds: The duration in seconds or as a timedelta, or a reference to a number of seconds.
        until: The time. A text has the form `2027-01-31 09:00`.
        task_ref_name: The reference name of the step.
    """
    block = get_innermost_block("wait()")
    ref = task_ref_name or block.make_unused_name("wait")
    if seconds is not None and until is not None:
        raise WorkflowError(f"{ref!r} waits either for a duration or until a time, not for both")
    duration_s: object = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
    task: WaitTask
    if isinstance(duration_s, Reference) or hasattr(type(duration_s), "as_reference"):
        task = WaitTask(ref)
        task.input_parameter("duration", f"{to_plain_value(duration_s)}s")
    elif isinstance(duration_s, int | float) and not isinstance(duration_s, bool):
        if duration_s < 0:
            raise WorkflowError(f"{ref!r} cannot wait for {seconds!r} seconds")
        task = WaitForDurationTask(ref, round(duration_s))
    elif duration_s is not None:
        raise WorkflowError(
            f"{ref!r} waits for a number of seconds or a timedelta, as in wait(timedelta(hours=1)); got {seconds!r}"
        )
    elif until is not None:
        when = until.strftime("%Y-%m-%d %H:%M %Z").strip() if isinstance(until, datetime) else until
        task = WaitUntilTask(ref, when)
    else:
        task = WaitTask(ref)
    block.append(task)
    return task


def set_variables(task_ref_name: str | None = None, **values: object) -> SetVariableTask:
    """Add a step that sets variables of the workflow. `workflow.variable("name")` refers to a variable."""
    block = get_innermost_block("set_variables(...)")
    if not values:
        raise WorkflowError("set_variables needs at least one variable, as in set_variables(attempts=1)")
    task = SetVariableTask(task_ref_name or block.make_unused_name("set_variables"))
    task._input_parameters = values
    block.append(task)
    return task


def terminate(status: WorkflowStatus | str, reason: str, task_ref_name: str | None = None, **output: object) -> None:
    """Add a step that ends the workflow.

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
    """Add a step that starts a registered workflow and waits for its end.

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


def _read_list_type(owner: str, items: object) -> ValueType | None:
    """Return the type of the elements of a list, if it is known.

    Raises:
        WorkflowError: The value is not a reference to a list.
    """
    target: Any = items
    reference = target.as_reference() if hasattr(type(items), "as_reference") else items
    if not isinstance(reference, Reference):
        raise WorkflowError(
            f"{owner} needs a reference to a list, got {items!r}; for a list that is known before the workflow runs, "
            "use Python's `for`"
        )
    if reference.value_type is None:
        return None
    kinds = reference.value_type.types()
    if kinds is not None and "array" not in kinds:
        raise WorkflowError(f"{owner} needs a list, but {reference} is {reference.value_type}")
    return reference.value_type.at("[0]", str.__str__(reference))


def _make_condition(ref: str, times: object) -> str:
    if isinstance(times, bool) or not isinstance(times, int):
        if isinstance(times, Reference) or hasattr(type(times), "as_reference"):
            _check_times(ref, times)
            return f"$.{ref}.iteration < $.times"
        raise WorkflowError(f"loop {ref!r} needs a whole number of iterations or a reference, got {times!r}")
    if times < 1:
        raise WorkflowError(f"loop {ref!r} runs at least once, got {times}")
    return get_for_loop_condition(ref, times)


def _check_times(ref: str, times: Any) -> None:
    """Raise WorkflowError for a reference to a value that is not a number."""
    reference = times if isinstance(times, Reference) else times.as_reference()
    kinds = None if reference.value_type is None else reference.value_type.types()
    if kinds and kinds.isdisjoint({"integer", "number"}):
        raise WorkflowError(
            f"the number of iterations of loop {ref!r} is a whole number, but {reference} is {reference.value_type}"
            + ("; to go through a list, use loop(items=...)" if "array" in kinds else "")
        )


def _format_case(value: object) -> str:
    """Return the value as the server compares it with the cases."""
    plain_value = to_json_value(value)
    return str(plain_value).lower() if isinstance(plain_value, bool) else str(plain_value)


def _check_script(owner: str, script: str, known: Collection[str]) -> None:
    """Raise WorkflowError for a script that cannot be parsed, and for a name `$.x` in it that has no value."""
    error = find_syntax_error(script)
    if error is not None:
        raise WorkflowError(f"the script of {owner} cannot be parsed: {error}: {script!r}")
    for name in _SCRIPT_NAME.findall(script):
        if name not in known:
            raise WorkflowError(
                f"the script of {owner} reads $.{name}, which is not passed to it; {suggest_name(name, known)}"
            )


def _find_value_type(value: Any) -> ValueType | None:
    target = value.as_reference() if hasattr(type(value), "as_reference") else value
    return target.value_type if isinstance(target, Reference) else None


def _list_values(value_type: ValueType) -> list[str] | None:
    """Return the values of a type as the server compares them; None if the type is neither an enum nor a boolean."""
    names: list[str] = []
    for schema in value_type._alternatives():
        if schema.get("type") == "boolean":
            names += ["true", "false"]
        elif "enum" in schema or "const" in schema:
            names += [_format_case(one) for one in schema.get("enum", [schema.get("const")])]
        else:
            return None
    return names
