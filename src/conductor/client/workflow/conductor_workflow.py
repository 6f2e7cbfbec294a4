"""A workflow written in Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from copy import copy, deepcopy
from itertools import count, zip_longest
from typing import Any, Self

from conductor.client.http.models.start_workflow_request import IdempotencyStrategy, StartWorkflowRequest
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.client.http.models.workflow_run import WorkflowRun
from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.client.workflow.authoring_errors import WorkflowError
from conductor.client.workflow.declared_types import DeclaredType
from conductor.client.workflow.executor.workflow_executor import WorkflowExecutor
from conductor.client.workflow.reference import make_reference, makes_step, open_blocks, to_plain_value
from conductor.client.workflow.step_blocks import StepBlock
from conductor.client.workflow.task.fork_task import ForkTask
from conductor.client.workflow.task.join_task import JoinTask
from conductor.client.workflow.task.sub_workflow_task import InlineSubWorkflowTask
from conductor.client.workflow.task.task import (
    TaskInterface,
    check_type,
    get_task_interface_list_as_workflow_task_list,
)
from conductor.client.workflow.task.timeout_policy import TimeoutPolicy
from conductor.client.workflow.value_type import ValueType
from conductor.client.workflow.worker_step import TypedStep
from conductor.client.workflow.workflow_checks import check_workflow

__all__ = ["ConductorWorkflow", "InlineSubWorkflowTask"]

#: Numbers for workflows that stand inside others without a name of their own; one row of numbers for each definition.
_numbers: ContextVar[Iterator[int] | None] = ContextVar("conductor_workflow_numbers", default=None)


class ConductorWorkflow:
    """A workflow: steps in a row, added with `>>`.

        workflow = ConductorWorkflow(clients.get_workflow_executor(), "greetings", version=1)
        workflow >> greet(task_ref_name="hello", name=workflow.input("name")) >> [mail, text]
        workflow.register(overwrite=True)

    A list adds its elements side by side; another workflow is added as a sub-workflow.
    """

    SCHEMA_VERSION = 2

    def __init__(
        self,
        executor: WorkflowExecutor | None,
        name: str,
        version: int | None = None,
        description: str | None = None,
    ) -> None:
        self._executor = executor
        self.name = name
        self.version = version
        self.description = description
        self._tasks: list[Any] = []
        self._owner_email: str | None = None
        self._timeout_policy: TimeoutPolicy | None = None
        self._timeout_seconds = 60
        self._failure_workflow = ""
        self._input_parameters: list[str] = []
        self._output_parameters: dict[str, Any] = {}
        self._input_template: dict[str, Any] = {}
        self._variables: dict[str, Any] = {}
        self._restartable = True
        self._workflow_status_listener_enabled = False
        self._workflow_status_listener_sink: str | None = None
        #: What its input and output are, where that was said.
        self._input_type: ValueType | None = None
        self._output_type: DeclaredType | None = None
        self._opened: list[Any] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> ConductorWorkflow:
        """A copy of the definition; the executor, which has connections, is shared."""
        twin = memo[id(self)] = copy(self)
        for name, value in vars(self).items():
            if name not in ("_executor", "_opened", "_input_type", "_output_type"):
                setattr(twin, name, deepcopy(value, memo))
        return twin

    # -- what it is -----------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name under which it is registered."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name: str = check_type(str, name, "the name of a workflow")

    @property
    def version(self) -> int | None:
        """Which version it is; None is the server's first."""
        return self._version

    @version.setter
    def version(self, version: int | None) -> None:
        self._version: int | None = None if version is None else check_type(int, version, "the version of a workflow")

    @property
    def description(self) -> str | None:
        """For people."""
        return self._description

    @description.setter
    def description(self, description: str | None) -> None:
        given = None if description is None else check_type(str, description, "the description of a workflow")
        self._description: str | None = given

    def timeout_policy(self, timeout_policy: TimeoutPolicy) -> Self:
        """What happens when it takes longer than its timeout."""
        self._timeout_policy = check_type(TimeoutPolicy, timeout_policy, "timeout_policy")
        return self

    def timeout_seconds(self, timeout_seconds: int) -> Self:
        """How long it may take; 60 unless said. Only with the policy TIME_OUT_WORKFLOW does it end there."""
        self._timeout_seconds = check_type(int, timeout_seconds, "timeout_seconds")
        return self

    def owner_email(self, owner_email: str) -> Self:
        """Whose it is."""
        self._owner_email = check_type(str, owner_email, "owner_email")
        return self

    def failure_workflow(self, failure_workflow: str) -> Self:
        """The workflow that is started when this one fails, for example to undo what was done."""
        self._failure_workflow = check_type(str, failure_workflow, "failure_workflow")
        return self

    def restartable(self, restartable: bool) -> Self:
        """Whether it may be restarted after its end; say False when doing things twice would do harm."""
        self._restartable = check_type(bool, restartable, "restartable")
        return self

    def enable_status_listener(self, sink_name: Any) -> Self:
        """Let the server tell a sink when the workflow's status changes."""
        self._workflow_status_listener_sink = sink_name
        self._workflow_status_listener_enabled = True
        return self

    def disable_status_listener(self) -> Self:
        """Let the server tell nobody."""
        self._workflow_status_listener_sink = None
        self._workflow_status_listener_enabled = False
        return self

    def input_parameters(self, input_parameters: list[str] | dict[str, Any]) -> Self:
        """The names of the inputs, for people; a dict of values is taken as `input_template`."""
        if isinstance(input_parameters, dict):
            self._input_template = input_parameters
            return self
        names = check_type(list, input_parameters, "input_parameters")
        self._input_parameters = [check_type(str, name, "the name of an input") for name in names]
        return self

    def input_template(self, input_template: dict[str, Any] | None) -> Self:
        """Values for the inputs that a start does not give."""
        self._input_template = _named_values(input_template, "input_template")
        return self

    def workflow_input(self, input: dict[str, Any]) -> Self:  # noqa: A002 (the name users know)
        """The same as `input_template`."""
        return self.input_template(input)

    def output_parameters(self, output_parameters: dict[str, Any] | None) -> Self:
        """What the workflow gives: names, and values or expressions. Without, it gives the last step's output."""
        self._output_parameters = _named_values(output_parameters, "output_parameters")
        return self

    def output_parameter(self, key: str, value: Any) -> Self:
        """One more thing that the workflow gives."""
        self._output_parameters[key] = value
        return self

    def returns(self, **values: Any) -> Self:
        """What the workflow gives, by name: values, expressions, or steps. The same as `output_parameters`."""
        return self.output_parameters(values)

    def variables(self, variables: dict[str, Any] | None) -> Self:
        """The variables at the start; `SetVariableTask` changes them."""
        self._variables = _named_values(variables, "variables")
        return self

    def input(self, json_path: str | None) -> Any:
        """The expression for an input of the workflow, which must be one of those that were said; for all with None."""
        value_type = self._input_type
        if value_type is not None and json_path is not None:
            value_type = value_type.at(json_path, f"the input of workflow {self.name!r}")
        return make_reference("workflow.input", json_path, value_type=value_type)

    def variable(self, name: str) -> Any:
        """The expression for a variable, which must be there from the start or be set by a step."""
        return make_reference("workflow.variables", name)

    def output(self, json_path: str | None = None) -> Any:
        """The expression for the workflow's output, or for a part of it."""
        return make_reference("workflow.output", json_path)

    # -- its steps ------------------------------------------------------------------------------------------------

    def __rshift__(self, task: Any) -> Self:
        """Add a step; a list of steps, or of lists of steps, side by side; or a workflow as a sub-workflow."""
        if isinstance(task, list):
            branches = [branch if isinstance(branch, list) else [branch] for branch in task]
            steps = [_checked(step) for branch in branches for step in branch]
            if not steps:
                raise ValueError("a list behind >> is a fork: it needs at least one step")
            return self._append(ForkTask(self._unused("forked"), branches))
        if isinstance(task, ConductorWorkflow):
            inline = InlineSubWorkflowTask(self._unused(task.name), task)
            inline.input_parameters.update(task._input_template)
            return self._append(inline)
        return self.add(task)

    def add(self, task: Any) -> Self:
        """Add a step, or several, one after the other."""
        for step in task if isinstance(task, list) else [task]:
            self._append(deepcopy(_checked(step)))
        return self

    def _append(self, step: Any) -> Self:
        blocks = open_blocks.get()
        if blocks and blocks[-1].workflow is self:
            blocks[-1].append(step)
        else:
            self._tasks.append(step)
        return self

    def __enter__(self) -> Self:
        """Inside the block, calls of decorated functions and of workflows are steps of this one."""
        self._opened.append(open_blocks.set((*open_blocks.get(), StepBlock(self, self._tasks))))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        open_blocks.reset(self._opened.pop())
        if kind is None:
            check_workflow(self)

    def steps(self) -> list[TaskInterface]:
        """All steps, also those inside of others."""
        return list(_all_steps(self._tasks))

    def reference_names(self) -> set[str]:
        """The reference names of all steps, also of those inside of others."""
        return {step.task_reference_name for step in self.steps()}

    def _unused(self, stem: str) -> str:
        """A reference name that no step of this workflow has yet, the same whenever the program runs."""
        taken = self.reference_names()
        return next(name for n in count(1) if (name := f"{stem}_{n}") not in taken)

    # -- as the server gets it ------------------------------------------------------------------------------------

    def to_workflow_def(self) -> WorkflowDef:
        """The definition as the server gets it."""
        numbers = _numbers.set(count(1))
        try:
            tasks = _joined(get_task_interface_list_as_workflow_task_list(*self._tasks))
        finally:
            _numbers.reset(numbers)
        return WorkflowDef(
            name=self._name,
            description=self._description,
            version=self._version,
            tasks=tasks,
            input_parameters=list(self._input_parameters),
            output_parameters=to_plain_value(self._output_parameters),
            failure_workflow=self._failure_workflow,
            schema_version=self.SCHEMA_VERSION,
            owner_email=self._owner_email,
            timeout_policy=None if self._timeout_policy is None else self._timeout_policy.value,
            timeout_seconds=self._timeout_seconds,
            variables=to_plain_value(self._variables),
            input_template=to_plain_value(self._input_template),
            workflow_status_listener_enabled=self._workflow_status_listener_enabled,
            workflow_status_listener_sink=self._workflow_status_listener_sink,
            enforce_schema=False,
            # A server assumes True: only the other one has to be said.
            restartable=None if self._restartable else False,
        )

    def to_workflow_task(self) -> WorkflowTask:
        """The workflow as a step of another one: a sub-workflow with the definition inside."""
        number = next(_numbers.get() or count(1))
        step = InlineSubWorkflowTask(f"{self.name}_inline_{number}", self)
        step.input_parameters.update(self._input_template)
        return step.to_workflow_task()

    # -- on a server ----------------------------------------------------------------------------------------------

    def register(self, overwrite: bool) -> Any:
        """Register the definition; without `overwrite`, one of that name and version is an error (409)."""
        return self._server().register_workflow(self.to_workflow_def(), overwrite=overwrite)

    def start_workflow(self, start_workflow_request: StartWorkflowRequest) -> str:
        """Start it with this very definition, registered or not; the answer is the execution's id."""
        request = start_workflow_request
        request.workflow_def = self.to_workflow_def()
        request.name = self.name
        request.version = self.version
        return self._server().start_workflow(request)

    def start_workflow_with_input(
        self,
        workflow_input: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        task_to_domain: dict[str, str] | None = None,
        priority: int | None = None,
        idempotency_key: str | None = None,
        idempotency_strategy: IdempotencyStrategy = IdempotencyStrategy.FAIL,
    ) -> str:
        """Start it with this very definition and that input; the answer is the execution's id."""
        return self.start_workflow(
            StartWorkflowRequest(
                input=workflow_input or {},
                correlation_id=correlation_id,
                task_to_domain=task_to_domain,
                priority=priority,
                idempotency_key=idempotency_key,
                idempotency_strategy=idempotency_strategy,
            )
        )

    def execute(
        self,
        workflow_input: Any = None,
        wait_until_task_ref: str = "",
        wait_for_seconds: int = 10,
        request_id: str | None = None,
        idempotency_key: str | None = None,
        idempotency_strategy: IdempotencyStrategy = IdempotencyStrategy.FAIL,
        task_to_domain: dict[str, str] | None = None,
    ) -> WorkflowRun:
        """Start it with this very definition and wait for its end, or for that step, or for that long.

        The answer is the execution as it stands then: look at its status.
        """
        request = StartWorkflowRequest(
            name=self.name,
            version=self.version or 1,
            input=workflow_input or {},
            workflow_def=self.to_workflow_def(),
            task_to_domain=task_to_domain,
        )
        if idempotency_key is not None:
            request.idempotency_key = idempotency_key
            request.idempotency_strategy = idempotency_strategy
        return self._server().execute_workflow(request, wait_until_task_ref, wait_for_seconds, request_id)

    def __call__(self, **kwargs: Any) -> Any:
        """Execute it with that input; inside of another workflow's block, or with references: a step of that one."""
        if "task_ref_name" in kwargs or makes_step((), kwargs):
            from conductor.client.workflow.sub_workflow_step import make_sub_workflow_step

            return make_sub_workflow_step(self, kwargs)
        return self.execute(workflow_input=kwargs)

    # -- without a server -----------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """All that is wrong with it, as far as it can be told without a server; needs the `server` extra."""
        from conductor.local.workflow_runner import find_problems

        found = [problem for step in self.steps() if isinstance(step, TypedStep) for problem in step.problems()]
        return found + find_problems(self.to_workflow_def().to_dict())

    def validate(self) -> Self:
        """WorkflowError with all that is wrong, without a server: what a coordinator would refuse, and wrong inputs."""
        found = self.problems()
        if found:
            raise WorkflowError(f"workflow {self.name!r}:\n" + "\n".join(f"- {problem}" for problem in found))
        return self

    def run(self, workflow_input: Any = None, *, workers: Iterable[Any] | None = None, timeout_s: float = 60.0) -> Any:
        """Run it here and now and return its output: on a coordinator in memory, by the workers of this process.

            order.run({"id": "A-1"})

        `workers` are those to use instead of the decorated ones. An execution that does not complete is a
        `WorkflowFailed`, at the first failure unless a worker's `task_def` has retries; one that takes longer than
        `timeout_s`, a TimeoutError. Nothing is left behind. For notebooks, scripts and tests; needs the `server` extra.
        """
        from conductor.local.workflow_runner import run_here

        output = run_here(self, workflow_input, workers=workers, timeout_s=timeout_s)
        return output if self._output_type is None else self._output_type.read(output)

    def _server(self) -> WorkflowExecutor:
        if self._executor is None:
            raise RuntimeError(
                f"workflow {self.name!r} was made without an executor, so it has no server: give it one, "
                f"ConductorWorkflow(clients.get_workflow_executor(), {self.name!r})"
            )
        return self._executor


def _all_steps(steps: list[Any]) -> Iterator[TaskInterface]:
    for step in steps:
        if isinstance(step, TaskInterface):
            yield step
            for inner in step._inside():
                yield from _all_steps(inner)


def _checked(step: Any) -> Any:
    if isinstance(step, TaskInterface | ConductorWorkflow):
        return step
    hint = ""
    if callable(step):
        hint = f": call it with its inputs, {getattr(step, '__name__', 'it')}(task_ref_name='…', …)"
    raise TypeError(f"a workflow is made of steps and workflows; {step!r} is neither{hint}")


def _joined(tasks: list[WorkflowTask]) -> list[WorkflowTask]:
    """The steps, with a JOIN behind every fork that has none and is not the last."""
    joined: list[WorkflowTask] = []
    for task, following in zip_longest(tasks, tasks[1:]):
        joined.append(task)
        if task.type == "FORK_JOIN" and following is not None and following.type != "JOIN":
            ends = [branch[-1].task_reference_name for branch in task.fork_tasks or () if branch]
            joined.append(JoinTask("join_" + task.task_reference_name, ends).to_workflow_task())
    return joined


def _named_values(values: Mapping[str, Any] | None, what: str) -> dict[str, Any]:
    if values is None:
        return {}
    return {
        check_type(str, name, f"a name in {what}"): deepcopy(v) for name, v in check_type(dict, values, what).items()
    }
