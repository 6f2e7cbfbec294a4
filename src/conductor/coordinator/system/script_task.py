"""Tasks that are scripts: INLINE, LAMBDA and JSON_JQ_TRANSFORM, and what their values and failures mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from conductor.coordinator.definitions.workflow_plan import SCRIPT_EVALUATORS
from conductor.coordinator.system.script_runner import ScriptError, ScriptRequest
from conductor.coordinator.system.system_task_result import SystemTaskResult, failed

#: Runs a script; raises ScriptError.
Run = Callable[[ScriptRequest], Any]
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def run_script_task(kind: str, given: bytes, run: Run) -> SystemTaskResult:
    """Do a task of one of these types. `given` is its input as it is stored."""
    return _KINDS[kind](_decode(given), given, run)


def script_reason(error: ScriptError) -> str:
    """What is said of a script that failed, as Conductor says it."""
    return str(error) if error.overran else f"Error evaluating the script {error}"


def _inline(given: dict[str, Any], data: bytes, run: Run) -> SystemTaskResult:
    evaluator, expression = given.get("evaluatorType") or "javascript", given.get("expression")
    problem = None
    if evaluator not in (*SCRIPT_EVALUATORS, "value-param"):
        problem = f"Unknown evaluator '{evaluator}' in INLINE task."
    elif not isinstance(expression, str) or not expression.strip():
        problem = "Empty 'expression' in Inline task's input parameters. A non-empty String value must be provided."
    if problem is not None:
        return failed(problem, final=True, error=problem)
    if evaluator == "value-param":
        return SystemTaskResult("COMPLETED", {"result": given.get(str(expression))})
    try:
        return SystemTaskResult("COMPLETED", {"result": run(ScriptRequest("javascript", str(expression), data))})
    except ScriptError as error:
        # A script that went wrong goes wrong again; one that took too long may have had bad luck.
        return failed(script_reason(error), final=not error.overran, error=script_reason(error))


def _lambda(given: dict[str, Any], data: bytes, run: Run) -> SystemTaskResult:
    body = given.get("scriptExpression")
    if not isinstance(body, str) or not body.strip():
        return failed(
            "Empty 'scriptExpression' in Lambda task's input parameters. A non-empty String value must be provided."
        )
    try:
        script = ScriptRequest("javascript", f"function scriptFun(){{{body}\n}} scriptFun();", data)
        return SystemTaskResult("COMPLETED", {"result": run(script)})
    except ScriptError as error:
        return failed(script_reason(error), error=script_reason(error))


def _jq(given: dict[str, Any], data: bytes, run: Run) -> SystemTaskResult:
    query = given.get("queryExpression")
    if not isinstance(query, str):
        return failed("Missing 'queryExpression' in input parameters")
    try:
        values = run(ScriptRequest("jq", query, data))
    except ScriptError as error:
        return failed(str(error), error=str(error))
    return SystemTaskResult("COMPLETED", {"result": values[0] if values else None, "resultList": values})


_KINDS: dict[str, Callable[[dict[str, Any], bytes, Run], SystemTaskResult]] = {
    "INLINE": _inline,
    "LAMBDA": _lambda,
    "JSON_JQ_TRANSFORM": _jq,
}
