"""Sample data of a coordinator: workflows of every kind and in every state, created over HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

Json = Any


def task(name: str, ref: str | None = None, kind: str = "SIMPLE", **more: Json) -> dict[str, Json]:
    return {"name": name, "taskReferenceName": ref or name, "type": kind, **more}


WIDE = 200

ORDER: dict[str, Json] = {
    "name": "order_flow",
    "version": 3,
    "description": "An order, from the click to the parcel.",
    "ownerEmail": "shop@example.com",
    "inputParameters": ["amount", "item"],
    "inputSchema": {
        "name": "order_input",
        "version": 1,
        "type": "JSON",
        "data": {
            "type": "object",
            "properties": {
                "item": {"type": "string", "description": "What is ordered."},
                "amount": {"type": "integer"},
                "gift": {"type": "boolean"},
                "speed": {"enum": ["slow", "fast"]},
            },
            "required": ["item"],
        },
    },
    "tasks": [
        task("validate", inputParameters={"amount": "${workflow.input.amount}"}),
        task(
            "large_order",
            kind="SWITCH",
            evaluatorType="value-param",
            expression="size",
            inputParameters={"size": "${validate.output.size}"},
            decisionCases={"large": [task("approve", kind="WAIT")], "small": [task("wrap_as_gift")]},
            defaultCase=[],
        ),
        task("split", kind="FORK_JOIN", forkTasks=[[task("pack"), task("label")], [task("charge")], [task("reserve")]]),
        task("both", kind="JOIN", joinOn=["label", "charge", "reserve"]),
        task("delivery", kind="SUB_WORKFLOW", subWorkflowParam={"name": "delivery", "version": 1}),
        task("notify"),
    ],
    "outputParameters": {"receipt": "${charge.output.receipt}"},
}
OLDER_ORDER = {**ORDER, "version": 2, "tasks": [*ORDER["tasks"][:1], *ORDER["tasks"][2:5]]}
DELIVERY = {"name": "delivery", "version": 1, "tasks": [task("drive"), task("hand_over")]}
ROWS = {
    "name": "page_rows",
    "version": 1,
    "tasks": [
        task(
            "rows",
            kind="DO_WHILE",
            loopCondition="if ($.rows['iteration'] < 2) {true;} else {false;}",
            loopOver=[task("store_rows")],
        )
    ],
}
#: A loop in a loop: the inner one is a workflow of its own.
LOOPS = {
    "name": "nightly_sync",
    "version": 1,
    "tasks": [
        task(
            "pages",
            kind="DO_WHILE",
            loopCondition="if ($.pages['iteration'] < 3) {true;} else {false;}",
            loopOver=[
                task("fetch_page"),
                task("page_rows", kind="SUB_WORKFLOW", subWorkflowParam={"name": "page_rows", "version": 1}),
            ],
        ),
        task("report_sync"),
    ],
}
FORK = {
    "name": "thumbnails",
    "version": 1,
    "tasks": [
        task("fan_out", kind="FORK_JOIN", forkTasks=[[task("thumbnail", f"thumbnail_{n}")] for n in range(WIDE)]),
        task("all_done", kind="JOIN", joinOn=[f"thumbnail_{n}" for n in range(WIDE)]),
    ],
}
#: What the person answers who approves an expense.
APPROVAL_FORM: dict[str, Json] = {
    "type": "object",
    "required": ["decision"],
    "properties": {
        "decision": {"title": "Decision", "enum": ["approve", "reject"], "description": "The employee is told."},
        "limit": {"type": "integer", "minimum": 1, "maximum": 5000, "default": 500},
        "address": {"$ref": "#/$defs/Address"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
    },
    "$defs": {
        "Address": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}},
        "Line": {
            "type": "object",
            "required": ["sku"],
            "properties": {"sku": {"type": "string"}, "parts": {"type": "array", "items": {"$ref": "#/$defs/Line"}}},
        },
    },
}
EXPENSE = {
    "name": "expense",
    "version": 1,
    "description": "An expense that somebody approves.",
    "inputParameters": ["amount", "for_what"],
    "tasks": [
        task(
            "approval",
            kind="HUMAN",
            inputParameters={
                "amount": "${workflow.input.amount}",
                "for_what": "${workflow.input.for_what}",
                "formSchema": APPROVAL_FORM,
                "__humanTaskDefinition": {"displayName": "Approve the expense"},
            },
        ),
    ],
}
NESTED: dict[str, Json] = {
    "name": "nested_loops",
    "version": 1,
    "tasks": [
        task(
            "outer",
            kind="DO_WHILE",
            loopCondition="if ($.outer['iteration'] < 3) {true;} else {false;}",
            loopOver=[
                task("prepare"),
                task(
                    "inner",
                    kind="DO_WHILE",
                    loopCondition="if ($.inner['iteration'] < 2) {true;} else {false;}",
                    loopOver=[task("tick")],
                ),
            ],
        ),
        task("finish"),
    ],
}
LEVELS: list[dict[str, Json]] = [
    {"name": "level_3", "version": 1, "tasks": [task("sink")]},
    {
        "name": "level_2",
        "version": 1,
        "tasks": [task("deepest", kind="SUB_WORKFLOW", subWorkflowParam={"name": "level_3", "version": 1})],
    },
    {
        "name": "level_1",
        "version": 1,
        "tasks": [task("deeper", kind="SUB_WORKFLOW", subWorkflowParam={"name": "level_2", "version": 1})],
    },
]
TRACEBACK = "Traceback (most recent call last):\n" + "".join(
    f'  File "/srv/app/step_{n}.py", line {n}, in step_{n}\n    return next_step(order)\n' for n in range(20)
)
DEFINITIONS = [
    NESTED,
    *LEVELS,
    {"name": "traced", "version": 1, "tasks": [task("explode")]},
    {
        "name": "pay_bank",
        "version": 1,
        "inputParameters": ["sum"],
        "tasks": [
            task("pay", inputParameters={"key": "${workflow.secrets.BANK_KEY}", "amount": "${workflow.input.amount}"})
        ],
    },
    OLDER_ORDER,
    ORDER,
    DELIVERY,
    ROWS,
    LOOPS,
    FORK,
    {"name": "in_domain", "version": 1, "tasks": [task("convert")]},
    {"name": "abroad", "version": 1, "tasks": [task("charge_eu")]},
    {
        "name": "packing",
        "version": 1,
        "tasks": [task("pack_boxes", inputParameters={"boxes": "${workflow.input.boxes}"}), task("weigh")],
    },
    EXPENSE,
    {
        "name": "reminder",
        "version": 1,
        "tasks": [task("until_monday", kind="WAIT", inputParameters={"duration": "2 days"})],
    },
]
TASKS = [
    {"name": "validate", "retryCount": 1, "description": "An order for nothing is refused."},
    {"name": "charge", "retryCount": 2, "retryDelaySeconds": 0, "retryLogic": "FIXED", "concurrentExecLimit": 5},
    {
        "name": "pack",
        "responseTimeoutSeconds": 3600,
        "inputSchema": {"name": "pack_in", "version": 1, "type": "JSON", "data": {"type": "object"}},
    },
    {"name": "label", "inputSchema": {"name": "address", "version": 1, "type": "JSON"}},
    {"name": "thumbnail", "concurrentExecLimit": 20},
    {"name": "convert", "rateLimitPerFrequency": 10, "rateLimitFrequencyInSeconds": 60},
]


class Samples:
    """Clients and workers of one coordinator."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url
        self.root = url.removesuffix("/api")
        #: The workflows to look at, by what they are.
        self.ids: dict[str, str] = {}
        self._token = token

    def call(self, method: str, path: str, body: Json = None) -> Json:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} | ({"X-Authorization": self._token} if self._token else {})
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read().decode()
                return json.loads(text) if text and "json" in answer.headers.get("Content-Type", "") else text
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.read().decode()}") from error

    def define(self) -> None:
        street = {"type": "object", "properties": {"street": {"type": "string"}}}
        self.call("POST", "/schema", {"name": "address", "version": 1, "type": "JSON", "data": street})
        self.call("POST", "/metadata/taskdefs", TASKS)
        self.call("PUT", "/metadata/workflow", DEFINITIONS)

    def start(self, name: str, given: Json = None, **more: Json) -> str:
        return str(self.call("POST", "/workflow", {"name": name, "input": given or {}, **more}))

    def poll(self, name: str, worker: str, count: int = 1, domain: str = "") -> list[dict[str, Json]]:
        where = f"&domain={domain}" if domain else ""
        found = self.call("GET", f"/tasks/poll/batch/{name}?count={count}&timeout=0&workerid={worker}{where}")
        return list(found)

    def report(self, taken: dict[str, Json], status: str = "COMPLETED", **more: Json) -> None:
        said = {
            "taskId": taken["taskId"],
            "workflowInstanceId": taken["workflowInstanceId"],
            "workerId": taken["workerId"],
            "leaseId": taken["leaseId"],
            "status": status,
            **more,
        }
        self.call("POST", "/tasks", said)

    def work(self, name: str, worker: str = "host-1-1234", output: Json = None, **more: Json) -> int:
        """Do all that waits in a queue; how many that was."""
        taken = self.poll(name, worker, 100)
        for one in taken:
            self.report(one, outputData=output or {}, **more)
        return len(taken)

    def fail(
        self, name: str, worker: str = "host-7-1234", reason: str = "ConnectionError: bank.example refused"
    ) -> None:
        for one in self.poll(name, worker, 100):
            logs = [
                {"log": "asking bank.example for 8842", "taskId": one["taskId"]},
                {"log": reason, "taskId": one["taskId"]},
            ]
            self.report(one, "FAILED", reasonForIncompletion=reason, logs=logs)

    def workflow(self, workflow_id: str) -> dict[str, Json]:
        return dict(self.call("GET", f"/workflow/{workflow_id}"))

    # -- what happened

    def order(self, correlation_id: str, size: str, **given: Json) -> str:
        """An order that has just been validated."""
        started = self.start("order_flow", {"item": "lamp", "amount": 2, **given}, correlationId=correlation_id)
        self.work("validate", output={"size": size})
        return started

    def charged(self, correlation_id: str) -> str:
        """A whole order, well."""
        started = self.order(correlation_id, "small", gift=True)
        for name in ("wrap_as_gift", "pack", "label", "reserve", "charge", "drive", "hand_over", "notify"):
            self.work(name, output={"receipt": f"R-{correlation_id}"} if name == "charge" else {"done": name})
        return started

    def refused(self, correlation_id: str) -> str:
        """An order whose charge was refused three times."""
        started = self.order(correlation_id, "small", gift=True)
        for name in ("wrap_as_gift", "pack", "label", "reserve"):
            self.work(name, output={"done": name})
        for _ in range(3):
            self.fail("charge")
        return started

    def served(self) -> None:
        """Workers of most queues have just polled; they want nothing now."""
        for name in ("validate", "charge", "pack", "label", "reserve", "notify", "thumbnail", "convert", "drive"):
            self.poll(name, "host-1-1234" if name != "thumbnail" else "host-2-77", 0)

    def create(self) -> None:
        """Everything that the tests look at."""
        self.define()
        found = self.ids
        for number in range(12):
            found["completed"] = self.charged(f"order-{8800 + number}")
        found["failed"] = self.refused("order-8842")
        found["failed too"] = self.refused("order-8843")
        found["terminated"] = self.order("order-8844", "other")
        self.call("DELETE", f"/workflow/{found['terminated']}?reason=called%20off")
        found["paused"] = self.order("order-8845", "other")
        self.call("PUT", f"/workflow/{found['paused']}/pause")
        found["approval"] = self.order("order-8846", "large", amount=1500)
        found["loops"] = self.start("nightly_sync")
        for _ in range(3):
            self.work("fetch_page", output={"rows": 500})
            for _ in range(2):
                self.work("store_rows")
        found["nested"] = self.start("nested_loops")
        for _ in range(3):
            self.work("prepare")
            for _ in range(2):
                self.work("tick")
        self.work("finish")
        found["deep"] = self.start("level_1")
        found["traced"] = self.start("traced")
        (taken,) = self.poll("explode", "host-1-1234")
        reason = f"ValueError: no lines\n{TRACEBACK}"[:900]
        logs = [{"log": TRACEBACK, "taskId": taken["taskId"]}]
        self.report(taken, "FAILED_WITH_TERMINAL_ERROR", reasonForIncompletion=reason, logs=logs)
        found["wide"] = self.start("thumbnails", correlationId="album-7")
        for one in self.poll("thumbnail", "host-2-77", 20):
            self.report(one)
        self.fail_some("thumbnail", 2)
        self.poll("thumbnail", "host-2-77", 8)
        found["domain"] = self.start("in_domain", taskToDomain={"convert": "gpu"})
        self.poll("convert", "host-3-5")
        found["unpolled"] = self.start("abroad", correlationId="order-8850")
        found["until"] = self.start("reminder")
        found["leased"] = self.start("packing", {"boxes": 8}, correlationId="order-8851")
        (taken,) = self.poll("pack_boxes", "host-4-901")
        self.call(
            "POST",
            "/tasks",
            {
                "taskId": taken["taskId"],
                "workflowInstanceId": taken["workflowInstanceId"],
                "workerId": "host-4-901",
                "leaseId": taken["leaseId"],
                "extendLease": True,
                "outputData": {"packed": 3, "of": 8},
                "logs": [{"log": "box 3 of 8", "taskId": taken["taskId"]}],
            },
        )
        self.schedule("nightly-sync", "0 0 2 * * *", "Europe/Berlin", "nightly_sync")
        self.schedule("weekly-report", "0 30 9 * * MON", "UTC", "report")
        self.call("PUT", "/secrets/SMTP_PASSWORD", "not shown")
        self.served()

    def schedule(self, name: str, cron: str, zone: str, workflow: str) -> None:
        start = {"name": workflow, "input": {"item": "lamp"}}
        one = {"name": name, "cronExpression": cron, "zoneId": zone, "startWorkflowRequest": start}
        self.call("POST", "/scheduler/schedules", one)

    def fail_some(self, name: str, count: int) -> None:
        for one in self.poll(name, "host-2-78", count):
            self.report(one, "FAILED", reasonForIncompletion="MemoryError: image is too large")
