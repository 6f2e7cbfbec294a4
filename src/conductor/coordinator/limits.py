"""Limits on the cost of data from outside: budgets of workflows, definitions and requests.

No workflow, definition, query or request can stop the server: the time for each grows with its size, up to these
limits. `docs/reference/http.md` lists them.
"""

from __future__ import annotations

# -- requests

#: A request with a larger body is rejected with 413.
MAX_BODY_BYTES = 10 * 1024 * 1024
#: A request with more JSON values is rejected, because each value takes many times its size in memory.
MAX_JSON_VALUES = 1_000_000
#: The work for a request with a larger body, such as validating a definition, runs outside the event loop.
LARGE_BODY_BYTES = 32 * 1024
#: The answer to one request, in bytes.
MAX_ANSWER_BYTES = 4 * MAX_BODY_BYTES
#: Correlation ids in one request.
MAX_CORRELATION_IDS = 1000
#: Problems of a definition that an error lists; it counts the others.
MAX_PROBLEMS_NAMED = 100
#: Warnings that the answer to a registration lists, each in a header.
MAX_WARNINGS_NAMED = 5

# -- values and expressions

#: A task fails if an input, an output or the variables of its workflow become larger.
MAX_VALUE_BYTES = MAX_BODY_BYTES
#: A task fails if the expressions in one value visit more list elements (`[*]`).
MAX_ELEMENTS_WALKED = 500_000
#: A definition is rejected if the text between `${` and `}` is longer.
MAX_EXPRESSION_CHARS = 10_000
#: A definition with more expressions is rejected. A task fails if its input resolves more expressions.
MAX_EXPRESSIONS = 20_000

# -- steps of workflows

#: A step of a workflow creates about this many tasks, or tasks whose inputs resolve to about this many bytes. The next
#: step creates the rest, after other workflows had their turn.
TASKS_PER_DECISION = 200
BYTES_PER_DECISION = 1024 * 1024
#: A dynamic fork with more branches is rejected, because all branches are read before the first one starts.
MAX_BRANCHES = 10_000
#: A workflow that creates more tasks without waiting for anything fails: it has an endless loop.
MAX_TASKS_WITHOUT_WAITING = 10_000
#: In that count, a task counts once for each of these bytes of its input.
BYTES_PER_COUNTED_TASK = 8 * 1024
#: Workflows that one change may advance in one transaction, and the processor time that this may take. The next
#: transaction advances the rest.
STEPS_PER_TRANSACTION = 200
STEPS_PER_TRANSACTION_S = 0.2
#: A request for many things is carried out in turns of about this many seconds, so that other requests run in between.
TURN_S = 0.05
#: Reports in one transaction.
REPORTS_PER_TRANSACTION = 500
#: Tasks that are requeued in one transaction.
REQUEUED_PER_TRANSACTION = 500
#: Overdue tasks and workflows in one transaction. The next transaction has the rest.
EXPIRED_PER_STEP = 200
#: A workflow is set to FAILED if its steps have crashed the process this many times in a row.
MAX_CRASHES_PER_WORKFLOW = 2
#: Depth of sub-workflows, so that a workflow that starts itself ends.
MAX_SUB_WORKFLOW_DEPTH = 100
#: Workflows that start each other (START_WORKFLOW, events, failure workflows) without waiting for anything.
MAX_CHAINED_STARTS = 100_000

# -- counters

#: Queues whose last poll is kept in memory. The oldest poll is dropped first.
MAX_POLLS_KEPT = 10_000
#: A poll is not kept if its task type, domain and worker id are longer in total.
MAX_POLL_NAME_CHARS = 1000
#: Series of one metric; further series are added up under the label `other`.
MAX_SERIES_PER_METRIC = 200

# -- scripts

#: A script (INLINE, LAMBDA, JSON_JQ_TRANSFORM, a condition) that takes longer fails, as in Conductor.
SCRIPT_S = 4
#: A start or a synchronous update waits this long for queued scripts, so that its answer contains their values.
WAIT_FOR_SCRIPTS_S = 0.5
#: Memory of a script process, and of one JavaScript script in it.
SCRIPT_PROCESS_BYTES = 512 * 1024 * 1024
SCRIPT_BYTES = 128 * 1024 * 1024
#: Processor time and elapsed time of the first run of a script. A script that needs more runs a second time, with the
#: full time, in a queue of such scripts. So an endless script does not delay short scripts.
QUICK_SCRIPT_CPU_S = 0.1
QUICK_SCRIPT_S = 0.5
#: Concurrent first runs, and concurrent second runs. Each uses a process, which is started on demand.
SCRIPT_PROCESSES = 2
#: Script tasks that are leased at a time, including those that wait for a second run, and the bytes of their inputs.
MAX_RUNNING_SCRIPTS = 500
MAX_RUNNING_SCRIPT_BYTES = 64 * 1024 * 1024

# -- other system tasks

#: System tasks that are polled in one transaction.
SYSTEM_TASKS_PER_POLL = 16
#: Concurrent HTTP tasks.
HTTP_CALLS = 32
#: An HTTP task fails if headers and decompressed body of the answer are larger.
MAX_HTTP_ANSWER_BYTES = 4 * 1024 * 1024
#: Default timeout of an HTTP task for the connection and for each read.
HTTP_TIMEOUT_MS = 3000
#: An HTTP task fails after this time, redirects included, whatever its timeouts are.
MAX_HTTP_CALL_S = 300
MAX_REDIRECTS = 10
#: EVENT and START_WORKFLOW tasks in one transaction.
STARTS_PER_TRANSACTION = 20

# -- schedules, secrets and events

#: Cron expressions of one schedule.
MAX_CRON_SCHEDULES = 100
#: Due times that are acted on in one transaction. The rest follow in the next transaction.
RUNS_PER_STEP = 50
#: Without catch-up, a schedule still acts on due times that are at most this late. A busy coordinator can be late.
MAKE_UP_MS = 10_000
#: Missed due times of one schedule that are counted at once. After a year of downtime there may be millions.
MAX_MISSED_COUNTED = 100
#: Recorded runs of one schedule; the oldest is dropped first.
RUNS_KEPT_PER_SCHEDULE = 10_000
#: Secrets from the API, and the size of each.
MAX_SECRETS = 1000
MAX_SECRET_BYTES = 64 * 1024
#: Actions of one event handler.
MAX_HANDLER_ACTIONS = 100
#: Published events that are handled in one transaction. The rest follow in the next transaction.
EVENTS_PER_STEP = 20

# -- dry runs

#: Concurrent dry runs.
MAX_DRY_RUNS = 2
#: Mocks of one dry run.
MAX_DRY_RUN_MOCKS = 10_000
#: A dry run with more tasks is rejected, sub-workflows included: this many, and further tasks for each mock.
MAX_DRY_RUN_TASKS = 1000
MAX_DRY_RUN_TASKS_PER_MOCK = 10
#: A dry run ends after this many steps; its answer shows the workflow at that point.
MAX_DRY_RUN_STEPS = 20_000
