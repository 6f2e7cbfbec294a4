"""What data from outside may cost: the budgets of workflows, definitions and requests.

No workflow, definition, query or request can stop the server: each is handled in time that grows with its size, up to
these limits. `docs/reference/http.md` names them.
"""

from __future__ import annotations

#: A request with a larger body is refused with 413; no value that a workflow builds may become larger.
MAX_BODY_BYTES = 10 * 1024 * 1024
#: Values in the JSON of one request: more are refused, for each takes many times its size in memory.
MAX_JSON_VALUES = 1_000_000
#: An input, an output or the variables of a workflow, built by expressions: a larger one fails its task.
MAX_VALUE_BYTES = MAX_BODY_BYTES
#: Elements of lists that the expressions of one value look at (`[*]`): more fails the task.
MAX_ELEMENTS_WALKED = 500_000
#: What stands between `${` and `}`: a longer one is refused where it is registered.
MAX_EXPRESSION_CHARS = 10_000
#: Expressions in one definition, and in one value that is built: more are refused, or fail the task.
MAX_EXPRESSIONS = 20_000
#: One step of a workflow makes about this many tasks; the rest follows in the next step, after others were served.
TASKS_PER_DECISION = 200
#: Branches of one dynamic fork: more are refused, for they are all read before the first one starts.
MAX_BRANCHES = 10_000
#: One step makes tasks whose inputs bring in about this many bytes; the rest follows in the next step.
BYTES_PER_DECISION = 1024 * 1024
#: A workflow that makes this many tasks without ever waiting for anything fails: it is a loop by mistake.
MAX_TASKS_WITHOUT_WAITING = 10_000
#: For that count, a task with a larger input counts as several.
BYTES_PER_COUNTED_TASK = 8 * 1024
#: Workflows that one change may move within one transaction; the rest follows in the next.
STEPS_PER_TRANSACTION = 200
#: And for how long it may do so, in seconds of computing.
STEPS_PER_TRANSACTION_S = 0.2
#: What is asked for many things at once is done in turns of about this long, so that others are served between them.
TURN_S = 0.05
#: Reports that are judged in one transaction, and tasks that are put back into their queue in one.
REPORTS_PER_TRANSACTION = 500
REQUEUED_PER_TRANSACTION = 500
#: Overdue tasks and workflows looked at in one transaction; the rest follows in the next.
EXPIRED_PER_STEP = 200
#: A workflow in whose steps the process has died this often in a row is set aside as FAILED.
MAX_CRASHES_PER_WORKFLOW = 2
#: Sub-workflows inside sub-workflows: one that starts itself comes to an end.
MAX_SUB_WORKFLOW_DEPTH = 100
#: Workflows that start each other (START_WORKFLOW, events, failure workflows) without ever waiting for anything.
MAX_CHAINED_STARTS = 100_000
#: What is done for a request with a larger body, such as looking through a definition, happens beside the event loop.
LARGE_BODY_BYTES = 32 * 1024
#: Problems of one definition that a refusal names; of more it says how many there are.
MAX_PROBLEMS_NAMED = 100
#: Warnings that the answer to a registration names, each in a header.
MAX_WARNINGS_NAMED = 5
#: Last polls that are remembered, and what their names may take; older ones are forgotten.
MAX_POLLS_KEPT = 10_000
MAX_POLL_NAME_CHARS = 1000
#: Series of one metric that are kept apart; what is more is counted together, as `other`.
MAX_SERIES_PER_METRIC = 200
#: Correlation ids that one request may ask for, and what the answer may have.
MAX_CORRELATION_IDS = 1000
MAX_ANSWER_BYTES = 4 * MAX_BODY_BYTES
#: A script (INLINE, LAMBDA, JSON_JQ_TRANSFORM, a condition) that takes longer than this fails, as in Conductor.
SCRIPT_S = 4
#: A start or a synchronous update waits this long for scripts that are queued, so that its answer shows their values.
WAIT_FOR_SCRIPTS_S = 0.5
#: What a process that runs scripts may take of memory, and a single script of JavaScript in it.
SCRIPT_PROCESS_BYTES = 512 * 1024 * 1024
SCRIPT_BYTES = 128 * 1024 * 1024
#: A script first gets this much processor time and this much time, so that endless scripts do not hold up short ones.
#: A script that needs more starts again after the others that do.
QUICK_SCRIPT_CPU_S = 0.1
QUICK_SCRIPT_S = 0.5
#: Scripts at a time, each in a process of its own: first runs, and longer runs. Processes are started when needed.
SCRIPT_PROCESSES = 2
#: Scripts taken from their queues, including those that wait for their longer run, and the bytes of their input.
MAX_RUNNING_SCRIPTS = 500
MAX_RUNNING_SCRIPT_BYTES = 64 * 1024 * 1024
#: Tasks that a lane takes from a queue in one transaction.
SYSTEM_TASKS_PER_POLL = 16
#: HTTP tasks at a time; the others wait in their queue.
HTTP_CALLS = 32
#: The answer that an HTTP task can take, headers and unpacked body: a larger one fails it.
MAX_HTTP_ANSWER_BYTES = 4 * 1024 * 1024
#: How long an HTTP task waits for a connection and for each part of the answer unless it says otherwise, in ms.
HTTP_TIMEOUT_MS = 3000
#: An HTTP task takes no longer than this, redirects included, whatever it says.
MAX_HTTP_CALL_S = 300
#: Redirects that an HTTP task follows.
MAX_REDIRECTS = 10
#: EVENT and START_WORKFLOW tasks done in one transaction.
STARTS_PER_TRANSACTION = 20
#: Cron expressions of one schedule.
MAX_CRON_SCHEDULES = 100
#: Due moments of schedules acted on in one transaction; the rest follows in the next.
RUNS_PER_STEP = 50
#: A schedule without catch-up makes up for due times that are at most this late, as after a busy moment.
MAKE_UP_MS = 10_000
#: Missed due times of one schedule that are counted at a time: after a year there may be millions.
MAX_MISSED_COUNTED = 100
#: Past runs of one schedule that are remembered; older ones are forgotten.
RUNS_KEPT_PER_SCHEDULE = 10_000
#: Secrets that come through the API, and the size of each.
MAX_SECRETS = 1000
MAX_SECRET_BYTES = 64 * 1024
#: Actions of one event handler.
MAX_HANDLER_ACTIONS = 100
#: Published events acted on in one transaction; the rest follows in the next.
EVENTS_PER_STEP = 20
#: Mocks in one test of a workflow, and tests that run at once.
MAX_DRY_RUN_MOCKS = 10_000
MAX_DRY_RUNS = 2
#: Tasks that such a test may make, sub-workflows included, and how many more for each mock: then it is refused.
MAX_DRY_RUN_TASKS = 1000
MAX_DRY_RUN_TASKS_PER_MOCK = 10
#: After so many steps such a test is answered as it is.
MAX_DRY_RUN_STEPS = 20_000
