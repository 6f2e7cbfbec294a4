"""Steps that run once for each element of a list: the block `each`.

A definition can only repeat a task type over a list of inputs that already exists. So an `EachTask` becomes three
tasks: a script that makes the branches and their inputs from the list, a dynamic fork, and its join. A branch is the
step of the block. If the block has several steps, a branch is a sub-workflow with these steps.

Inside the block, `${REF.item…}` refers to the element. Such an expression is never sent to the server. An input that
does not use the element stays an expression, which the server replaces when it starts the branch. So no secret passes
through the script.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any

from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.client.workflow.authoring_errors import WorkflowError
from conductor.client.workflow.reference import Reference, make_reference, to_plain_value
from conductor.client.workflow.task.inline import InlineTask
from conductor.client.workflow.task.join_task import JoinTask
from conductor.client.workflow.task.task import TaskInterface, get_task_interface_list_as_workflow_task_list
from conductor.client.workflow.task.task_type import TaskType
from conductor.client.workflow.value_type import ValueType

#: A single step of one of these types becomes a branch itself. All other blocks become a sub-workflow.
_BRANCH_TYPES = (TaskType.SIMPLE, TaskType.SUB_WORKFLOW, TaskType.HTTP, TaskType.HUMAN, TaskType.WAIT)
_EXPRESSION = re.compile(r"\$\{\s*([^{}]+?)\s*\}")
_PART = re.compile(r"[^.\[\]]+|\[\d+\]")
#: The inputs of a branch that is a sub-workflow have names with this prefix, so that expressions that refer to these
#: inputs are not confused with expressions that refer to inputs of the outer workflow.
_OWN = "__"
#: Rewrites an expression of an `each` block inside a branch to the scope of that branch. Returns others unchanged.
_rewrite_outer: ContextVar[Callable[[re.Match[str]], str]] = ContextVar(
    "conductor_each_scope", default=lambda match: match[0]
)
_SECRETS = ("workflow.secrets.", "workflow.env.")
#: The script that makes the branches. `$.items` is the list. NAMES, TASK and PREFIX are replaced by JSON, VALUES by
#: JavaScript. An input that depends on the element becomes an expression for a value in the output of the script. A
#: server replaces expressions in the inputs of branches only once, so text of the data is never read as an expression.
_SCRIPT = """(function () {
  function get(value, path) {
    for (var i = 0; i < path.length && value !== null && value !== undefined; i++) value = value[path[i]];
    return value === undefined ? null : value;
  }
  function text(value) {
    return value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
  }
  var items = $.items || [], names = NAMES, tasks = [], inputs = {}, values = [];
  for (var n = 0; n < items.length; n++) {
    var item = items[n], task = TASK;
    task.taskReferenceName = PREFIX + n;
    values.push(VALUES);
    for (var k = 0; k < names.length; k++) {
      task.inputParameters[names[k]] = "$" + "{BRANCHES.output.result.values[" + n + "][" + k + "]}";
    }
    tasks.push(task);
    inputs[task.taskReferenceName] = {};
  }
  return {tasks: tasks, inputs: inputs, values: values};
})();"""


class EachTask(TaskInterface):
    """Runs its steps once for each element of a list, in parallel, and waits for all of them.

    Args:
        task_ref_name: The reference name.
        items: The expression of the list.
        workflow_name: The name of the workflow, which begins the name of the sub-workflow of each branch.
    """

    def __init__(self, task_ref_name: str, items: Any, workflow_name: str) -> None:
        super().__init__(task_ref_name, TaskType.FORK_JOIN_DYNAMIC)
        self._input_parameters = {"items": items}
        self._workflow_name = workflow_name
        self._steps: list[Any] = []
        #: The outputs of a branch that `collect` returns, by name.
        self._collected: dict[str, str] = {}

    @property
    def join_name(self) -> str:
        """The reference name of the join, whose output has the output of each branch."""
        return f"{self._task_reference_name}_join"

    @property
    def made_names(self) -> list[str]:
        """The reference names of the tasks generated for the block, without those of its steps."""
        return [self.join_name, f"{self._task_reference_name}_branches"]

    def _inside(self) -> list[list[Any]]:
        return [self._steps]

    @property
    def is_one_step(self) -> bool:
        """Whether a branch is the step itself, not a sub-workflow."""
        return len(self._steps) == 1 and self._steps[0]._task_type in _BRANCH_TYPES

    def collect(self, reference: Reference) -> Reference:
        """Return a reference to a list: the value of the given reference in each branch."""
        path = str.__str__(reference)[2:-1]
        if self.is_one_step:
            suffix = path.partition(".output")[2]
        else:
            name = re.sub(r"\W", "_", path.replace(".output", ""))
            while self._collected.setdefault(name, str.__str__(reference)) != str.__str__(reference):
                name += "_"
            suffix = f".{name}"
        value_type = reference.value_type
        items: dict[str, Any] = {"type": "array", "items": {} if value_type is None else value_type.schema}
        whole = ValueType(items, {} if value_type is None else value_type.definitions)
        return make_reference(self.join_name, f"output.*{suffix}", value_type=whole)

    def to_workflow_task(self) -> list[WorkflowTask]:
        """Return the script, the dynamic fork and its join as the server expects them."""
        ref = self._task_reference_name
        branch = self._make_step_branch() if self.is_one_step else self._make_sub_workflow_branch()
        inputs = _Inputs(ref, _rewrite_strings(branch.get("inputParameters", {}), _rewrite_outer.get()))
        prefix = f"{self._steps[0].task_reference_name if self.is_one_step else ref}_"
        replacements = {
            "NAMES": _to_javascript(inputs.made_names),
            "TASK": _to_javascript({**branch, "inputParameters": inputs.fixed}),
            "PREFIX": _to_javascript(prefix),
            "VALUES": inputs.values,
            "BRANCHES": f"{ref}_branches",
        }
        script = re.sub("|".join(replacements), lambda match: replacements[match[0]], _SCRIPT)
        prepare = InlineTask(f"{ref}_branches", script)
        prepare._input_parameters |= {"items": to_plain_value(self._input_parameters["items"]), **inputs.shared}
        fork = WorkflowTask(
            name=ref,
            task_reference_name=ref,
            type=TaskType.FORK_JOIN_DYNAMIC.value,
            dynamic_fork_tasks_param="tasks",
            dynamic_fork_tasks_input_param_name="inputs",
            input_parameters={
                "tasks": f"${{{ref}_branches.output.result.tasks}}",
                "inputs": f"${{{ref}_branches.output.result.inputs}}",
            },
        )
        return [prepare.to_workflow_task(), fork, JoinTask(self.join_name).to_workflow_task()]

    def _make_step_branch(self) -> dict[str, Any]:
        (step,) = get_task_interface_list_as_workflow_task_list(*self._steps)
        body: dict[str, Any] = step.to_dict()
        return body

    def _make_sub_workflow_branch(self) -> dict[str, Any]:
        inner_steps = list(list_steps(self._steps))
        names = {inner.task_reference_name for inner in inner_steps}
        names |= {name for inner in inner_steps if isinstance(inner, EachTask) for name in inner.made_names}
        captured: dict[str, str] = {}

        def rewrite(match: re.Match[str]) -> str:
            path = match[1]
            root, _, rest = path.partition(".")
            # The server replaces these expressions when the branch starts.
            if root in names or path.startswith((*_SECRETS, f"workflow.input.{_OWN}")):
                return match[0]
            if root == self._task_reference_name and re.match(r"item\b", rest):
                return f"${{workflow.input.{_OWN}{rest}}}"
            name = captured.setdefault(f"${{{path}}}", f"{_OWN}value_{len(captured) + 1}")
            return f"${{workflow.input.{name}}}"

        token = _rewrite_outer.set(rewrite)
        try:
            steps = get_task_interface_list_as_workflow_task_list(*self._steps)
        finally:
            _rewrite_outer.reset(token)
        tasks = [_rewrite_strings(task.to_dict(), rewrite) for task in steps]
        name = f"{self._workflow_name}.{self._task_reference_name}"
        definition = {
            "name": name,
            "version": 1,
            "schemaVersion": 2,
            "tasks": tasks,
            "outputParameters": dict(self._collected),
            "timeoutSeconds": 0,
        }
        return {
            "name": name,
            "taskReferenceName": self._task_reference_name,
            "type": TaskType.SUB_WORKFLOW.value,
            "subWorkflowParam": {"name": name, "version": 1, "workflowDefinition": definition},
            "inputParameters": {
                f"{_OWN}item": f"${{{self._task_reference_name}.item}}",
                **{name: expression for expression, name in captured.items()},
            },
        }


class _Inputs:
    """The inputs of a branch. The script computes the inputs that depend on the element; the other inputs are fixed."""

    def __init__(self, ref: str, inputs: dict[str, Any]) -> None:
        self._item = f"{ref}.item"
        #: Expressions that the script combines with the element, by the name of the script's input.
        self.shared: dict[str, str] = {}
        #: The inputs without the element.
        self.fixed = {name: value for name, value in inputs.items() if not self._uses_item(value)}
        #: The names of the inputs that depend on the element, and a JavaScript list of their values.
        self.made_names = [name for name in inputs if name not in self.fixed]
        self.values = "[" + ", ".join(self._compile(inputs[name]) for name in self.made_names) + "]"

    def _uses_item(self, value: Any) -> bool:
        if isinstance(value, str):
            return any(self._is_item(path) for path in _EXPRESSION.findall(value))
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return any(map(self._uses_item, inner))

    def _is_item(self, path: str) -> bool:
        return path == self._item or path.startswith((f"{self._item}.", f"{self._item}["))

    def _compile(self, value: Any) -> str:
        """Return the JavaScript expression of an input."""
        if isinstance(value, dict):
            pairs = (f"{_to_javascript(name)}: {self._compile(inner)}" for name, inner in value.items())
            return "{" + ", ".join(pairs) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(self._compile, value)) + "]"
        if not isinstance(value, str) or not (found := list(_EXPRESSION.finditer(value))):
            return _to_javascript(value)
        if found[0].span() == (0, len(value)):
            return self._compile_expression(found[0][1])
        parts, end = [], 0
        for one in found:
            parts += [_to_javascript(value[end : one.start()]), f"text({self._compile_expression(one[1])})"]
            end = one.end()
        return " + ".join([*parts, _to_javascript(value[end:])])

    def _compile_expression(self, path: str) -> str:
        if self._is_item(path):
            keys = [int(part[1:-1]) if part[0] == "[" else part for part in _PART.findall(path[len(self._item) :])]
            return f"get(item, {_to_javascript(keys)})"
        if path.startswith(_SECRETS):
            raise WorkflowError(f"${{{path}}} and an element of the list cannot be in one value: pass them separately")
        expression = f"${{{path}}}"
        known = {text: name for name, text in self.shared.items()}
        name = known.get(expression, f"value_{len(self.shared) + 1}")
        self.shared[name] = expression
        return f"get($, [{_to_javascript(name)}])"


def find_each(steps: Iterable[Any], name: str) -> EachTask | None:
    """Return the innermost `EachTask` that contains a step of this name, or None."""
    eaches = [step for step in list_steps(steps) if isinstance(step, EachTask)]
    containing = [one for one in eaches if name in {inner.task_reference_name for inner in list_steps(one._steps)}]
    return containing[-1] if containing else None


def list_steps(steps: Iterable[Any]) -> Iterator[Any]:
    """Yield steps, including those inside other steps."""
    for step in steps:
        yield step
        for inner in step._inside():
            yield from list_steps(inner)


def _rewrite_strings(value: Any, rewrite: Callable[[re.Match[str]], str]) -> Any:
    if isinstance(value, str):
        return _EXPRESSION.sub(rewrite, value)
    if isinstance(value, dict):
        # Skip the definition of an inline sub-workflow, because its expressions refer to that sub-workflow.
        return {
            name: inner if name == "workflowDefinition" else _rewrite_strings(inner, rewrite)
            for name, inner in value.items()
        }
    return [_rewrite_strings(inner, rewrite) for inner in value] if isinstance(value, list) else value


def _to_javascript(value: Any) -> str:
    return json.dumps(value).replace("${", "\\u0024{")
