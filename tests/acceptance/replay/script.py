"""The request script: requests of workers, other SDKs and command-line users, and their mistakes."""

from __future__ import annotations

from typing import Any

from tests.acceptance.replay.player import Ask

#: A server that keeps a partial batch open returns at once when the batch is full, so one task is asked for at a time.
POLL = "/tasks/poll/batch/<type>?workerid=me&count=1&timeout=5000"
FIRST_TASK = {"task": (0, "taskId")}


def flow(*names: str, **more: Any) -> dict[str, Any]:
    """A definition of SIMPLE tasks, one after the other."""
    tasks = [
        {
            "name": name,
            "taskReferenceName": f"step{number}",
            "type": "SIMPLE",
            "inputParameters": {"a": "${workflow.input.a}"},
        }
        for number, name in enumerate(names)
    ]
    return {"name": "<flow>", "version": 1, "schemaVersion": 2, "tasks": tasks, **more}


def start(title: str, *names: str, **more: Any) -> Ask:
    """Start with the definition in the request."""
    asked = {"name": "<flow>", "workflowDef": flow(*names), "input": {"a": 1}, **more}
    return Ask(title, "POST", "/workflow", asked, keep={"workflow": ()})


def report(title: str, status: str, path: str = "/tasks", **more: Any) -> Ask:
    """Report on the task polled last."""
    said = {"taskId": "<task>", "workflowInstanceId": "<workflow>", "workerId": "me", "status": status, **more}
    return Ask(title, "POST", path, said)


SERVER = [
    Ask("health", "GET", "/health"),
    Ask("a path that does not exist", "GET", "/nothing/here"),
    Ask("a token, on a server without accounts", "POST", "/token", {"keyId": "a", "keySecret": "b"}),
    Ask("a verb that the path has not", "PATCH", "/tasks"),
    Ask("a slash at the end", "GET", "/tasks/poll/<type>/"),
]

TASK_DEFINITIONS = [
    Ask("no such task definition", "GET", "/metadata/taskdefs/<type>"),
    Ask("change a task definition that does not exist", "PUT", "/metadata/taskdefs", {"name": "<type>"}),
    Ask("drop a task definition that does not exist", "DELETE", "/metadata/taskdefs/<type>"),
    Ask(
        "register task definitions", "POST", "/metadata/taskdefs", [{"name": "<type>", "retryCount": 1, "x-unknown": 1}]
    ),
    Ask("read a task definition", "GET", "/metadata/taskdefs/<type>"),
    Ask(
        "register it again", "POST", "/metadata/taskdefs", [{"name": "<type>", "retryCount": 1, "retryDelaySeconds": 0}]
    ),
    Ask("change it", "PUT", "/metadata/taskdefs", {"name": "<type>", "retryCount": 1, "retryDelaySeconds": 0}),
    Ask("read it after the change", "GET", "/metadata/taskdefs/<type>"),
    Ask("register no task definitions", "POST", "/metadata/taskdefs", []),
    Ask("register one that is not in a list", "POST", "/metadata/taskdefs", {"name": "<type>"}),
    Ask("a task definition without a name", "POST", "/metadata/taskdefs", [{"retryCount": 1}]),
    Ask("a negative retry count", "POST", "/metadata/taskdefs", [{"name": "<type>x", "retryCount": -1}]),
    Ask("a response timeout of zero", "POST", "/metadata/taskdefs", [{"name": "<type>x", "responseTimeoutSeconds": 0}]),
    Ask(
        "a response timeout above the timeout",
        "POST",
        "/metadata/taskdefs",
        [{"name": "<type>x", "timeoutSeconds": 60}],
    ),
    Ask("an unknown retry logic", "POST", "/metadata/taskdefs", [{"name": "<type>x", "retryLogic": "SOMETIMES"}]),
]

WORKFLOW_DEFINITIONS = [
    Ask("no such workflow definition", "GET", "/metadata/workflow/<flow>"),
    Ask("drop a workflow definition that does not exist", "DELETE", "/metadata/workflow/<flow>/1"),
    Ask("register a workflow definition", "POST", "/metadata/workflow", flow("<type>")),
    Ask("register it twice", "POST", "/metadata/workflow", flow("<type>")),
    Ask("overwrite it", "POST", "/metadata/workflow?overwrite=true", flow("<type>", description="new")),
    Ask("read a workflow definition", "GET", "/metadata/workflow/<flow>"),
    Ask("read a version that does not exist", "GET", "/metadata/workflow/<flow>?version=7"),
    Ask("change workflow definitions", "PUT", "/metadata/workflow", [flow("<type>", "<type>", version=2)]),
    Ask("read the latest version", "GET", "/metadata/workflow/<flow>"),
    Ask("validate a workflow definition", "POST", "/metadata/workflow/validate", flow("<type>")),
    Ask("a workflow without tasks", "POST", "/metadata/workflow", flow(version=4)),
    Ask(
        "a workflow of another schema version", "POST", "/metadata/workflow", flow("<type>", schemaVersion=1, version=3)
    ),
    Ask("start by name", "POST", "/workflow/<flow>?correlationId=c1&priority=7", {"a": 1}, keep={"workflow": ()}),
    Ask("its status", "GET", "/workflow/<workflow>/status?includeOutput=true&includeVariables=true"),
    Ask("terminate it", "DELETE", "/workflow/<workflow>?reason=enough"),
    Ask("drop a version", "DELETE", "/metadata/workflow/<flow>/2"),
    Ask("drop the other version", "DELETE", "/metadata/workflow/<flow>/1"),
]

LIFE_OF_A_TASK = [
    Ask("poll for a type that nobody uses", "GET", "/tasks/poll/<type>"),
    Ask("poll a batch of it", "GET", "/tasks/poll/batch/<type>?count=5&timeout=0"),
    start("start", "<type>", "<type>", correlationId="c2", priority=3),
    Ask("how many wait", "GET", "/tasks/queue/size?taskType=<type>"),
    Ask("how many wait, by type", "GET", "/tasks/queue/sizes?taskType=<type>"),
    Ask("the workflow before anything is done", "GET", "/workflow/<workflow>"),
    Ask("poll", "GET", POLL, keep=FIRST_TASK),
    Ask("read the task", "GET", "/tasks/<task>"),
    Ask("who polled", "GET", "/tasks/queue/polldata?taskType=<type>"),
    report("a heartbeat", "IN_PROGRESS", extendLease=True),
    report("come back at once", "IN_PROGRESS", outputData={"so": "far"}, callbackAfterSeconds=0),
    Ask("it is polled again", "GET", POLL, keep=FIRST_TASK),
    report("fail", "FAILED", reasonForIncompletion="no luck", outputData={"left": None, "right": 1.5}),
    Ask("the failed attempt", "GET", "/tasks/<task>"),
    Ask("the workflow between two attempts", "GET", "/workflow/<workflow>"),
    report("fail it again", "FAILED", reasonForIncompletion="too late"),
    Ask("the second attempt", "GET", POLL, keep=FIRST_TASK),
    Ask("write to its log", "POST", "/tasks/<task>/log", text="a line of log", content_type="application/json"),
    report("complete", "COMPLETED", outputData={"deep": {"list": [1, "two", None, {"x": []}], "flag": True}}),
    report("complete it twice", "COMPLETED", outputData={"other": 1}),
    report("a heartbeat too late", "IN_PROGRESS", extendLease=True),
    Ask("the completed task", "GET", "/tasks/<task>"),
    Ask("the second step", "GET", "/tasks/poll/<type>?workerid=me", keep={"task": ("taskId",)}),
    report("complete and ask for more", "COMPLETED", "/tasks/update-v2"),
    Ask("the workflow at its end", "GET", "/workflow/<workflow>"),
    Ask("the workflow without its tasks", "GET", "/workflow/<workflow>?includeTasks=false"),
    Ask("the status at its end", "GET", "/workflow/<workflow>/status"),
    Ask("terminate what has ended", "DELETE", "/workflow/<workflow>"),
    Ask("pause what has ended", "PUT", "/workflow/<workflow>/pause"),
    Ask("retry what has not failed", "POST", "/workflow/<workflow>/retry"),
]

ENDINGS = [
    start("start to fail terminally", "<type>"),
    Ask("poll to fail terminally", "GET", POLL, keep=FIRST_TASK),
    report("fail terminally", "FAILED_WITH_TERMINAL_ERROR", reasonForIncompletion="hopeless"),
    Ask("the failed workflow", "GET", "/workflow/<workflow>"),
    Ask("retry the workflow", "POST", "/workflow/<workflow>/retry"),
    Ask("the retried workflow", "GET", "/workflow/<workflow>"),
    Ask("retry it while it runs", "POST", "/workflow/<workflow>/retry"),
    Ask("poll the retried task", "GET", POLL, keep=FIRST_TASK),
    report("cancel", "CANCELED"),
    Ask("the cancelled workflow", "GET", "/workflow/<workflow>"),
    start("start to terminate", "<type>"),
    Ask("poll to terminate", "GET", POLL, keep=FIRST_TASK),
    Ask("terminate", "DELETE", "/workflow/<workflow>?reason=changed%20my%20mind"),
    report("a result too late", "COMPLETED"),
    Ask("the terminated workflow", "GET", "/workflow/<workflow>"),
    Ask("terminate it twice", "DELETE", "/workflow/<workflow>"),
    start("start to pause", "<type>", "<type>"),
    Ask("pause", "PUT", "/workflow/<workflow>/pause"),
    Ask("pause twice", "PUT", "/workflow/<workflow>/pause"),
    Ask("a paused workflow's task is still delivered", "GET", POLL, keep=FIRST_TASK),
    report("complete while paused", "COMPLETED"),
    Ask("the paused workflow", "GET", "/workflow/<workflow>/status"),
    Ask("nothing comes next", "GET", "/tasks/poll/batch/<type>?timeout=0"),
    Ask("resume", "PUT", "/workflow/<workflow>/resume"),
    Ask("what comes next", "GET", POLL, keep=FIRST_TASK),
    report("complete after the pause", "COMPLETED"),
    Ask("the end after the pause", "GET", "/workflow/<workflow>/status"),
]

BY_REFERENCE = [
    start("start to update by reference", "<type>", "<type>"),
    Ask(
        "complete by reference",
        "POST",
        "/tasks/<workflow>/step0/COMPLETED?workerid=me",
        {"by": "name"},
        keep={"task": ()},
    ),
    Ask("the task completed by reference", "GET", "/tasks/<task>"),
    Ask("complete what is not open", "POST", "/tasks/<workflow>/step0/COMPLETED", {}),
    Ask("complete a step that does not exist", "POST", "/tasks/<workflow>/nothing/COMPLETED", {}),
    Ask("complete and see what is not open", "POST", "/tasks/<workflow>/step0/COMPLETED/sync", {}),
    Ask("complete and see", "POST", "/tasks/<workflow>/step1/COMPLETED/sync", {"last": True}),
    Ask("an unknown status by reference", "POST", "/tasks/<workflow>/step1/DONE", {}),
]

WHOLE_WORKFLOWS = [
    start("start to look at", "<type>", correlationId="<domain>"),
    Ask("its tasks", "GET", "/workflow/<workflow>/tasks"),
    Ask("running by name", "GET", "/workflow/running/<flow>"),
    Ask("correlated", "GET", "/workflow/<flow>/correlated/<domain>", indexed=True),
    Ask("many correlated", "POST", "/workflow/<flow>/correlated", ["<domain>", "nothing"], indexed=True),
    Ask("restart it while it runs", "POST", "/workflow/<workflow>/restart"),
    Ask("rerun it while it runs", "POST", "/workflow/<workflow>/rerun", {}),
    Ask("remove it while it runs", "DELETE", "/workflow/<workflow>/remove"),
    Ask("poll to restart", "GET", POLL, keep=FIRST_TASK),
    report("complete to restart", "COMPLETED"),
    Ask("restart", "POST", "/workflow/<workflow>/restart"),
    Ask("the restarted workflow", "GET", "/workflow/<workflow>"),
    Ask("poll after the restart", "GET", POLL, keep=FIRST_TASK),
    report("fail after the restart", "FAILED_WITH_TERMINAL_ERROR"),
    Ask("rerun from the failed task", "POST", "/workflow/<workflow>/rerun", {"reRunFromTaskId": "<task>"}),
    Ask("the rerun workflow", "GET", "/workflow/<workflow>"),
    Ask("reset callbacks", "POST", "/workflow/<workflow>/resetcallbacks"),
    Ask("decide", "PUT", "/workflow/decide/<workflow>"),
    Ask("pause many", "PUT", "/workflow/bulk/pause", ["<workflow>", "nothing"]),
    Ask("resume many", "PUT", "/workflow/bulk/resume", ["<workflow>"]),
    Ask("resume what is not paused", "PUT", "/workflow/<workflow>/resume"),
    Ask("terminate many", "POST", "/workflow/bulk/terminate?reason=all", ["<workflow>"]),
    Ask("reset callbacks of what has ended", "POST", "/workflow/<workflow>/resetcallbacks"),
    Ask("remove", "DELETE", "/workflow/<workflow>/remove?archiveWorkflow=false"),
    Ask("the removed workflow", "GET", "/workflow/<workflow>"),
]

_CASE = [{"name": "<type>", "taskReferenceName": "chosen", "type": "SIMPLE"}]
_BRANCHING = flow()
_BRANCHING["tasks"] = [
    {
        "name": "set",
        "taskReferenceName": "set",
        "type": "SET_VARIABLE",
        "inputParameters": {"x": "${workflow.input.a}"},
    },
    {
        "name": "switch",
        "taskReferenceName": "switch",
        "type": "SWITCH",
        "evaluatorType": "value-param",
        "expression": "which",
        "inputParameters": {"which": "${workflow.variables.x}"},
        "decisionCases": {"1": _CASE},
    },
]

OPERATORS = [
    Ask(
        "start what branches",
        "POST",
        "/workflow",
        {"name": "<flow>", "workflowDef": _BRANCHING, "input": {"a": 1}},
        keep={"workflow": ()},
    ),
    Ask("what has branched", "GET", "/workflow/<workflow>"),
    Ask("poll the chosen task", "GET", POLL, keep=FIRST_TASK),
    report("complete the chosen task", "COMPLETED", outputData={"end": 1}),
    Ask("the end of what branches", "GET", "/workflow/<workflow>"),
]

DOMAINS = [
    start("start in a domain", "<type>", taskToDomain={"<type>": "<domain>"}),
    Ask("not delivered outside", "GET", "/tasks/poll/batch/<type>?timeout=0"),
    Ask("delivered inside", "GET", POLL + "&domain=<domain>", keep=FIRST_TASK),
    report("complete in the domain", "COMPLETED"),
    Ask("how many wait in the domain", "GET", "/tasks/queue/size?taskType=<type>&domain=<domain>"),
]

MISTAKES = [
    Ask("no such task", "GET", "/tasks/nothing"),
    Ask("no such workflow", "GET", "/workflow/nothing"),
    Ask("no such workflow to terminate", "DELETE", "/workflow/nothing"),
    Ask("no such workflow to start", "POST", "/workflow", {"name": "<flow>-nothing", "version": 3}),
    Ask("no such workflow to start by name", "POST", "/workflow/<flow>-nothing", {}),
    Ask("start without a name", "POST", "/workflow", {"input": {}}),
    Ask("a priority of 100", "POST", "/workflow", {"name": "<flow>", "workflowDef": flow("<type>"), "priority": 100}),
    Ask("a null input", "POST", "/workflow", {"name": "<flow>", "workflowDef": flow("<type>"), "input": None}),
    Ask("a poll longer than five seconds", "GET", "/tasks/poll/batch/<type>?timeout=5001"),
    Ask("a count that is no number", "GET", "/tasks/poll/batch/<type>?count=many"),
    Ask("a count of zero", "GET", "/tasks/poll/batch/<type>?count=0&timeout=0"),
    Ask("no type to count", "GET", "/tasks/queue/size"),
    Ask("no log", "GET", "/tasks/nothing/log"),
    Ask("a report without ids", "POST", "/tasks", {"status": "COMPLETED"}),
    Ask("a report without ids, to update-v2", "POST", "/tasks/update-v2", {"status": "COMPLETED"}),
    Ask(
        "a report on a workflow that does not exist",
        "POST",
        "/tasks",
        {"taskId": "a", "workflowInstanceId": "b", "status": "FAILED"},
    ),
    Ask(
        "a report on a task that does not exist",
        "POST",
        "/tasks",
        {"taskId": "a", "workflowInstanceId": "<workflow>", "status": "FAILED"},
    ),
    Ask(
        "a heartbeat for a task that does not exist",
        "POST",
        "/tasks",
        {"taskId": "a", "workflowInstanceId": "b", "status": "IN_PROGRESS", "extendLease": True},
    ),
    Ask("a status that does not exist", "POST", "/tasks", {"taskId": "a", "workflowInstanceId": "b", "status": "DONE"}),
    Ask("a report that is no JSON", "POST", "/tasks", text="{nonsense"),
    Ask("a report that is a list", "POST", "/tasks", []),
    Ask(
        "output that is a list",
        "POST",
        "/tasks",
        {"taskId": "a", "workflowInstanceId": "b", "status": "COMPLETED", "outputData": []},
    ),
    Ask("a report without a body", "POST", "/tasks"),
]

SCRIPT = [
    *SERVER,
    *TASK_DEFINITIONS,
    *WORKFLOW_DEFINITIONS,
    *LIFE_OF_A_TASK,
    *ENDINGS,
    *BY_REFERENCE,
    *WHOLE_WORKFLOWS,
    *OPERATORS,
    *DOMAINS,
    *MISTAKES,
]
