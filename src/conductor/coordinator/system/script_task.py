"""Executes the script tasks INLINE, LAMBDA and JSON_JQ_TRANSFORM, with the outputs and failure reasons of Conductor."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from conductor.coordinator.definitions.likely_mistakes import Script
from conductor.coordinator.definitions.workflow_plan import SCRIPT_EVALUATORS
from conductor.coordinator.system.script_runner import QuickRunTimeout, ScriptError, ScriptRequest
from conductor.coordinator.system.system_task_result import SystemTaskResult, failed
from conductor.protocol.json_types import Json, JsonObject

#: Runs a script and returns its value; raises ScriptError.
RunScript = Callable[[ScriptRequest], Json]
_decode = msgspec.json.Decoder(JsonObject).decode


def run_script_task(kind: str, encoded_input: bytes, run: RunScript) -> SystemTaskResult:
    """Execute a task of type `kind` and return its result. `encoded_input` is its stored input, as JSON."""
    return _WORKERS[kind](_decode(encoded_input), encoded_input, run)


def describe_script_error(error: ScriptError) -> str:
    """Return Conductor's text for a script that failed."""
    return str(error) if error.overran else f"Error evaluating the script {error}"


def find_syntax_errors(scripts: Sequence[Script], run: RunScript) -> list[str | None]:
    """Return for each script why its engine cannot parse it, or None. The scripts do not run."""
    errors: list[str | None] = []
    try:
        errors.extend(_find_syntax_error(script, run) for script in scripts)
    except QuickRunTimeout:  # only a malicious script takes long to parse; the scripts after it are not checked
        errors += [None] * (len(scripts) - len(errors))
    return errors


def _find_syntax_error(script: Script, run: RunScript) -> str | None:
    if script.language == "jq":
        request = ScriptRequest("jq", f"empty | ({script.program}\n)", b"null")
    else:
        # An engine parses the whole program before it runs the first statement.
        request = ScriptRequest("javascript", f"throw 0; {script.program}", b"{}")
    try:
        run(request)
    except ScriptError as error:
        reason = str(error).partition("\n")[0].removeprefix("jq: error: ").rstrip(":")
        return reason if script.language == "jq" or "SyntaxError" in reason else None
    return None


def _run_inline(task_input: JsonObject, data: bytes, run: RunScript) -> SystemTaskResult:
    evaluator, expression = task_input.get("evaluatorType") or "javascript", task_input.get("expression")
    problem = None
    if evaluator not in (*SCRIPT_EVALUATORS, "value-param"):
        problem = f"Unknown evaluator '{evaluator}' in INLINE task."
    elif not isinstance(expression, str) or not expression.strip():
        problem = "Empty 'expression' in Inline task's input parameters. A non-empty String value must be provided."
    if problem is not None:
        return failed(problem, final=True, error=problem)
    if evaluator == "value-param":
        return SystemTaskResult("COMPLETED", {"result": task_input.get(str(expression))})
    try:
        return SystemTaskResult("COMPLETED", {"result": run(ScriptRequest("javascript", str(expression), data))})
    except ScriptError as error:
        # A script that raised would raise again. A script that took too long may end in time on the next attempt.
        return failed(describe_script_error(error), final=not error.overran, error=describe_script_error(error))


def _run_lambda(task_input: JsonObject, data: bytes, run: RunScript) -> SystemTaskResult:
    body = task_input.get("scriptExpression")
    if not isinstance(body, str) or not body.strip():
        return failed(
            "Empty 'scriptExpression' in Lambda task's input parameters. A non-empty String value must be provided."
        )
    try:
        script = ScriptRequest("javascript", f"function scriptFun(){{{body}\n}} scriptFun();", data)
        return SystemTaskResult("COMPLETED", {"result": run(script)})
    except ScriptError as error:
        return failed(describe_script_error(error), error=describe_script_error(error))


def _run_jq(task_input: JsonObject, data: bytes, run: RunScript) -> SystemTaskResult:
    query = task_input.get("queryExpression")
    if not isinstance(query, str):
        return failed("Missing 'queryExpression' in input parameters")
    try:
        values = run(ScriptRequest("jq", query, data))
    except ScriptError as error:
        return failed(str(error), error=str(error))
    return SystemTaskResult("COMPLETED", {"result": values[0] if values else None, "resultList": values})


_WORKERS: dict[str, Callable[[JsonObject, bytes, RunScript], SystemTaskResult]] = {
    "INLINE": _run_inline,
    "LAMBDA": _run_lambda,
    "JSON_JQ_TRANSFORM": _run_jq,
}
