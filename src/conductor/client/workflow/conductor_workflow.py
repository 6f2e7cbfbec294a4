"""A workflow definition that is built in Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from copy import copy, deepcopy
from itertools import count, zip_longest
from typing import Any, Never, Self

from conductor.client.http.models.save_schedule_request import SaveScheduleRequest
from conductor.client.http.models.start_workflow_request import IdempotencyStrategy, StartWorkflowRequest
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.client.http.models.workflow_run import WorkflowRun
from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.client.workflow.authoring_errors import WorkflowError
from conductor.client.workflow.declared_types import DeclaredInputs, DeclaredType
from conductor.client.workflow.each_step import EachTask
from conductor.client.workflow.executor.workflow_executor import WorkflowExecutor
from conductor.client.workflow.reference import make_reference, makes_step, open_blocks, to_plain_value
from conductor.client.workflow.step_blocks import StepBlock, unused_steps
from conductor.client.workflow.task.fork_task import ForkTask
from conductor.client.workflow.task.join_task import JoinTask
from conductor.client.workflow.task.sub_workflow_task import InlineSubWorkflowTask
from conductor.client.workflow.task.task import (
    TaskInterface,
    check_type,
    get_task_interface_list_as_workflow_task_list,
)
from conductor.client.workflow.task.timeout_policy import TimeoutPolicy
from conductor.client.workflow.worker_step import TypedStep
from conductor.client.workflow.workflow_checks import check_workflow, list_input_problems, warn_about_steps_outside
from conductor.client.workflow.workflow_cron import Cron

__all__ = ["ConductorWorkflow", "InlineSubWorkflowTask"]

#: The numbers in the names of inline sub-workflows. Each definition starts again with the first number.
_numbers: ContextVar[Iterator[int] | None] = ContextVar("conductor_workflow_numbers", default=None)


class ConductorWorkflow:
    """A workflow definition. `>>` adds steps in order.

    A list adds its elements as the branches of a fork. Another workflow is added as a sub-workflow.

    Args:
        executor: The connection to the server; None for a workflow that only runs in this process.
        name: The name of the definition.
        version: The version of the definition.
        description: A description for readers.

    Example:
        workflow = ConductorWorkflow(clients.get_workflow_executor(), "greetings", version=1)
        workflow >> greet(task_ref_name="hello", name=workflow.input("name")) >> [mail, text]
        workflow.register(overwrite=True)
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
        #: The declared types of input and output.
        self._inputs: DeclaredInputs | None = None
        self._output_type: DeclaredType | None = None
        #: The failure workflow, if it is defined in this program.
        self._on_failure: ConductorWorkflow | None = None
        self._cron: Cron | None = None
        self._opened: list[Any] = []
        #: Whether the steps are in a `with` block, not added with `>>`.
        self._has_block = False

    def __deepcopy__(self, memo: dict[int, Any]) -> ConductorWorkflow:
        """Copy the definition. The copy shares the executor, because connections cannot be copied."""
        duplicate = memo[id(self)] = copy(self)
        for name, value in vars(self).items():
            if name not in ("_executor", "_opened", "_inputs", "_output_type"):
                setattr(duplicate, name, deepcopy(value, memo))
        return duplicate

    # -- properties -----------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the definition."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name: str = check_type(str, name, "the name of a workflow")

    @property
    def version(self) -> int | None:
        """The version of the definition. With None, the server uses version 1."""
        return self._version

    @version.setter
    def version(self, version: int | None) -> None:
        self._version: int | None = None if version is None else check_type(int, version, "the version of a workflow")

    @property
    def description(self) -> str | None:
        """The description for readers."""
        return self._description

    @description.setter
    def description(self, description: str | None) -> None:
        if description is not None:
            check_type(str, description, "the description of a workflow")
        self._description = description

    def timeout_policy(self, timeout_policy: TimeoutPolicy) -> Self:
        """Set the action that the server takes at the timeout."""
        self._timeout_policy = check_type(TimeoutPolicy, timeout_policy, "timeout_policy")
        return self

    def timeout_seconds(self, timeout_seconds: int) -> Self:
        """Set the timeout in seconds (default: 60), which has an effect only with the policy TIME_OUT_WORKFLOW."""
        self._timeout_seconds = check_type(int, timeout_seconds, "timeout_seconds")
        return self

    def owner_email(self, owner_email: str) -> Self:
        """Set the email address of the owner."""
        self._owner_email = check_type(str, owner_email, "owner_email")
        return self

    def failure_workflow(self, failure_workflow: str) -> Self:
        """Set the workflow that the server starts when this one fails."""
        self._failure_workflow = check_type(str, failure_workflow, "failure_workflow")
        return self

    def restartable(self, restartable: bool) -> Self:
        """Set whether an ended execution can be restarted. Use False if steps must not run twice."""
        self._restartable = check_type(bool, restartable, "restartable")
        return self

    def enable_status_listener(self, sink_name: Any) -> Self:
        """Publish changes of the status to a sink."""
        self._workflow_status_listener_sink = sink_name
        self._workflow_status_listener_enabled = True
        return self

    def disable_status_listener(self) -> Self:
        """Do not publish changes of the status."""
        self._workflow_status_listener_sink = None
        self._workflow_status_listener_enabled = False
        return self

    def input_parameters(self, input_parameters: list[str] | dict[str, Any]) -> Self:
        """Set the names of the inputs, for readers. A dict is used as `input_template`."""
        if isinstance(input_parameters, dict):
            self._input_template = input_parameters
            return self
        names = check_type(list, input_parameters, "input_parameters")
        self._input_parameters = [check_type(str, name, "the name of an input") for name in names]
        return self

    def input_template(self, input_template: dict[str, Any] | None) -> Self:
        """Set the defaults of the inputs."""
        self._input_template = _copy_values(input_template, "input_template")
        return self

    def workflow_input(self, input: dict[str, Any]) -> Self:  # noqa: A002
        """Set the defaults of the inputs, as `input_template` does."""
        return self.input_template(input)

    def output_parameters(self, output_parameters: dict[str, Any] | None) -> Self:
        """Set the output: names with values or expressions. The default is the output of the last step."""
        self._output_parameters = _copy_values(output_parameters, "output_parameters")
        return self

    def output_parameter(self, key: str, value: object) -> Self:
        """Add a value to the output of the workflow."""
        self._output_parameters[key] = value
        return self

    def returns(self, *unnamed: Never, **values: object) -> Self:
        """Set the output of the workflow by name: values, expressions or steps."""
        if unnamed:
            raise TypeError("the output of a workflow consists of named values: write returns(name=value)")
        return self.output_parameters(values)

    def variables(self, variables: dict[str, Any] | None) -> Self:
        """Set the initial values of variables. `SetVariableTask` changes them."""
        self._variables = _copy_values(variables, "variables")
        return self

    def input(self, json_path: str | None) -> Any:
        """Return the expression for an input of the workflow; for all inputs with None.

        Raises:
            UnknownOutput: The inputs are declared and have no such field.
        """
        value_type = None if self._inputs is None else self._inputs.value_type
        if value_type is not None and json_path is not None:
            value_type = value_type.at(json_path, f"the input of workflow {self.name!r}")
        owner = self.name if self._has_block else None
        return make_reference("workflow.input", json_path, value_type=value_type, owner=owner)

    def variable(self, name: str) -> Any:
        """Return the expression for a variable, which must have an initial value or be set by a step."""
        return make_reference("workflow.variables", name)

    def output(self, json_path: str | None = None) -> Any:
        """Return the expression for the output of the workflow or a part of it."""
        return make_reference("workflow.output", json_path)

    # -- steps ----------------------------------------------------------------------------------------------------

    def __rshift__(self, task: Any) -> Self:
        """Add a step. A list becomes a fork with one branch per element, and a workflow becomes a sub-workflow."""
        if isinstance(task, list):
            branches = [branch if isinstance(branch, list) else [branch] for branch in task]
            steps = [_check_step(step) for branch in branches for step in branch]
            _mark_used(steps)
            if not steps:
                raise ValueError("a list after >> is a fork: it needs at least one step")
            return self._append(ForkTask(self._make_unused_name("forked"), branches))
        if isinstance(task, ConductorWorkflow):
            inline = InlineSubWorkflowTask(self._make_unused_name(task.name), task)
            inline.input_parameters.update(task._input_template)
            return self._append(inline)
        return self.add(task)

    def add(self, task: Any) -> Self:
        """Add a step, or a list of steps in order."""
        for step in task if isinstance(task, list) else [task]:
            _mark_used([_check_step(step)])
            self._append(deepcopy(step))
        return self

    def _append(self, step: Any) -> Self:
        blocks = open_blocks.get()
        if blocks and blocks[-1].workflow is self:
            blocks[-1].append(step)
        else:
            self._tasks.append(step)
        return self

    def __enter__(self) -> Self:
        """Open a block, inside which calls of decorated functions and workflows add steps to this workflow."""
        self._has_block = True
        self._opened.append(open_blocks.set((*open_blocks.get(), StepBlock(self, self._tasks))))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        open_blocks.reset(self._opened.pop())
        if kind is None:
            check_workflow(self)

    def steps(self) -> list[TaskInterface]:
        """Return all steps, including those inside other steps."""
        return list(_all_steps(self._tasks))

    def reference_names(self) -> set[str]:
        """Return the reference names of all steps, including those inside other steps."""
        names = {step.task_reference_name for step in self.steps()}
        return names | {name for step in self.steps() if isinstance(step, EachTask) for name in step.made_names}

    def _make_unused_name(self, stem: str) -> str:
        """Return a reference name that no step of this workflow has. Every run of the program gets the same names."""
        taken = self.reference_names()
        return next(name for n in count(1) if (name := f"{stem}_{n}") not in taken)

    # -- definition -----------------------------------------------------------------------------------------------

    def to_workflow_def(self) -> WorkflowDef:
        """Return the definition as the server expects it."""
        warn_about_steps_outside(self)
        numbers = _numbers.set(count(1))
        try:
            tasks = _add_joins(get_task_interface_list_as_workflow_task_list(*self._tasks))
        finally:
            _numbers.reset(numbers)
        input_schema = None if self._inputs is None else self._inputs.make_schema(self._name)
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
            input_schema=input_schema,
            enforce_schema=input_schema is not None,
            # The server assumes True, so only False is sent.
            restartable=None if self._restartable else False,
        )

    def to_workflow_task(self) -> WorkflowTask:
        """Return the workflow as a step of another one: a sub-workflow that contains the definition."""
        number = next(_numbers.get() or count(1))
        step = InlineSubWorkflowTask(f"{self.name}_inline_{number}", self)
        step.input_parameters.update(self._input_template)
        return step.to_workflow_task()

    def to_schedule(self) -> SaveScheduleRequest | None:
        """Return the schedule of `workflow(..., cron=...)`; None without one.

        Raises:
            WorkflowError: The workflow needs inputs, which a schedule does not have.
        """
        if self._cron is None:
            return None
        required = () if self._inputs is None else self._inputs.required
        missing = [name for name in required if name not in self._input_template]
        if missing:
            raise WorkflowError(
                f"workflow {self.name!r} has a cron expression, but its schedule passes no value for the input "
                f"{' and '.join(map(repr, missing))}: set a default with workflow_input(...)"
            )
        return self._cron.make_schedule(self.name, self.version)

    # -- with a server --------------------------------------------------------------------------------------------

    def register(self, overwrite: bool) -> Any:
        """Register the definition, with its failure workflow and its schedule, if this program defines them.

        Without `overwrite`, an existing definition of that name and version is an error (409).
        """
        schedule = self.to_schedule()
        if self._on_failure is not None:
            self._server().register_workflow(self._on_failure.to_workflow_def(), overwrite=True)
        answer = self._server().register_workflow(self.to_workflow_def(), overwrite=overwrite)
        if schedule is not None:
            self._server().save_schedule(schedule)
        return answer

    def start_workflow(self, start_workflow_request: StartWorkflowRequest) -> str:
        """Start the workflow with this definition, registered or not. Return the workflow id."""
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
        """Start the workflow with this definition and the given input. Return the workflow id.

        Args:
            workflow_input: The input.
            correlation_id: An id of your own, by which workflows can be found.
            task_to_domain: The task domain for each task type.
            priority: 0 to 99; higher numbers run first.
            idempotency_key: A key that identifies the start, so that it happens once.
            idempotency_strategy: The action if the key was used before.
        """
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
        """Start the workflow with this definition and wait for its end.

        Args:
            workflow_input: The input.
            wait_until_task_ref: Return when this step has ended.
            wait_for_seconds: The longest wait.
            request_id: An id for the request.
            idempotency_key: A key that identifies the start, so that it happens once.
            idempotency_strategy: The action if the key was used before.
            task_to_domain: The task domain for each task type.

        Returns:
            The workflow as it is at the end of the wait. Check its status, because it may still be running.
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
        """Execute the workflow with the arguments as its input.

        Inside the `with` block of another workflow, add this workflow to it as a sub-workflow instead. The same happens
        if an argument refers to a step or an input of another workflow.
        """
        if "task_ref_name" in kwargs or makes_step((), kwargs):
            from conductor.client.workflow.sub_workflow_step import make_sub_workflow_step

            return make_sub_workflow_step(self, kwargs)
        return self.execute(workflow_input=kwargs)

    # -- without a server -----------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """Return the mistakes that can be found without a server. Needs the `server` extra."""
        from conductor.local.workflow_runner import find_problems

        found = [problem for step in self.steps() if isinstance(step, TypedStep) for problem in step.problems()]
        found += list_input_problems(self)
        return found + find_problems(self.to_workflow_def().to_dict(), self.to_schedule())

    def validate(self) -> Self:
        """Check the definition without a server: the rules of the coordinator, and the inputs of steps.

        Raises:
            WorkflowError: The definition has mistakes. The message lists them.
        """
        found = self.problems()
        if found:
            raise WorkflowError(f"workflow {self.name!r}:\n" + "\n".join(f"- {problem}" for problem in found))
        return self

    def run(
        self,
        workflow_input: Any = None,
        *,
        workers: Iterable[Any] | None = None,
        workflows: Iterable[ConductorWorkflow] = (),
        timeout_s: float = 60.0,
        **unknown: Never,
    ) -> Any:
        """Run the workflow in this process, on a coordinator in memory. Return its output.

        For notebooks, scripts and tests. Needs the `server` extra. A task is retried only if its worker registers a
        task definition with retries.

        Args:
            workflow_input: The input.
            workers: The workers to use instead of the decorated ones.
            workflows: Workflows that this one starts by name.
            timeout_s: The longest time that the workflow may take.
            **unknown: Other keyword arguments raise a TypeError, which shows how inputs are passed.

        Raises:
            WorkflowError: The input does not match the declared inputs, or a step has no worker.
            WorkflowFailed: The workflow did not complete.
            TimeoutError: The workflow took longer than `timeout_s`.

        Example:
            order.run({"id": "A-1"})
        """
        from conductor.local.workflow_runner import run_here

        if unknown:
            raise TypeError(
                f"run has no parameter {next(iter(unknown))!r}: it takes the input as a dict, as in "
                'run({"name": "Ada"}), and the options workers, workflows and timeout_s'
            )
        output = run_here(self, workflow_input, workers=workers, workflows=workflows, timeout_s=timeout_s)
        return output if self._output_type is None else self._output_type.read(output)

    def _server(self) -> WorkflowExecutor:
        if self._executor is None:
            raise RuntimeError(
                f"workflow {self.name!r} has no executor and so no server: pass one, "
                f"ConductorWorkflow(clients.get_workflow_executor(), {self.name!r}), or run the workflow in this "
                "process with run({...})"
            )
        return self._executor


def _all_steps(steps: list[Any]) -> Iterator[TaskInterface]:
    for step in steps:
        if isinstance(step, TaskInterface):
            yield step
            for inner in step._inside():
                yield from _all_steps(inner)


def _mark_used(steps: list[Any]) -> None:
    for step in _all_steps(steps):
        unused_steps.pop(getattr(step, "_number", 0), None)


def _check_step(step: Any) -> Any:
    if isinstance(step, TaskInterface | ConductorWorkflow):
        return step
    hint = ""
    if callable(step):
        hint = f": call it with its inputs, {getattr(step, '__name__', 'it')}(task_ref_name='…', …)"
    raise TypeError(f"a workflow consists of steps and workflows; {step!r} is neither{hint}")


def _add_joins(tasks: list[WorkflowTask]) -> list[WorkflowTask]:
    """Return the steps with a JOIN after every fork that has none and is not the last step."""
    joined: list[WorkflowTask] = []
    for task, following in zip_longest(tasks, tasks[1:]):
        joined.append(task)
        if task.type == "FORK_JOIN" and following is not None and following.type != "JOIN":
            ends = [branch[-1].task_reference_name for branch in task.fork_tasks or () if branch]
            joined.append(JoinTask("join_" + task.task_reference_name, ends).to_workflow_task())
    return joined


def _copy_values(values: Mapping[str, Any] | None, what: str) -> dict[str, Any]:
    if values is None:
        return {}
    return {
        check_type(str, name, f"a name in {what}"): deepcopy(v) for name, v in check_type(dict, values, what).items()
    }
