"""Limits on the time and memory that one workflow, definition or request can take.

Without these limits, a single large workflow, definition, query or request could stop the server for all others.
`docs/reference/http.md` lists the limits.
"""

from __future__ import annotations

# -- requests

#: A request with a larger body is rejected with 413.
MAX_BODY_BYTES = 10 * 1024 * 1024
#: A request with more JSON values is rejected, because each value takes many times its size in memory.
MAX_JSON_VALUES = 1_000_000
#: The work for a request with a larger body, such as validating a definition, runs outside the event loop.
LARGE_BODY_BYTES = 32 * 1024
#: The maximum size of the answer to one request.
MAX_ANSWER_BYTES = 4 * MAX_BODY_BYTES
#: A workflow is not returned with its tasks if the inputs and outputs of the tasks are larger than this.
MAX_TASKS_BYTES = 64 * 1024 * 1024
#: An answer with the log lines of a task contains about this many bytes of them. Older lines are left out.
MAX_LOG_BYTES = 10 * 1024 * 1024
#: The maximum number of correlation ids in one request.
MAX_CORRELATION_IDS = 1000
#: An error about a definition lists this many problems, and gives only the number of the others.
MAX_PROBLEMS_NAMED = 100
#: The maximum number of likely mistakes that are reported for a definition, and of scripts whose syntax is checked.
MAX_LIKELY_MISTAKES = 100
MAX_SCRIPTS_CHECKED = 100
#: A registration warns if a sub-workflow starts the registered workflow again. At most this many sub-workflows of a
#: definition are checked, and this many other definitions are read.
MAX_SUB_WORKFLOWS_CHECKED = 20
#: The answer to a registration lists this many warnings, each in a header of its own.
MAX_WARNINGS_NAMED = 5

# -- values and expressions

#: A task fails if an input, an output or the variables of its workflow become larger than this.
MAX_VALUE_BYTES = MAX_BODY_BYTES
#: A task fails if the `[*]` steps of the expressions in one value visit more list elements than this.
MAX_ELEMENTS_WALKED = 500_000
#: A definition is rejected if the text between a `${` and its `}` is longer than this.
MAX_EXPRESSION_CHARS = 10_000
#: A definition with more expressions than this is rejected. A task fails if its input resolves more expressions.
MAX_EXPRESSIONS = 20_000

# -- steps of workflows

#: A decision about a workflow creates at most about this many tasks, or tasks whose inputs resolve to about this many
#: bytes. The next decision creates the rest, after decisions about other workflows.
TASKS_PER_DECISION = 200
BYTES_PER_DECISION = 1024 * 1024
#: A dynamic fork with more branches than this is rejected, because all branches are read before the first one starts.
MAX_BRANCHES = 10_000
#: A workflow that creates more tasks than this without waiting for anything fails: it has an endless loop.
MAX_TASKS_WITHOUT_WAITING = 10_000
#: For `MAX_TASKS_WITHOUT_WAITING`, a task with a large input counts as one more task per this many bytes.
BYTES_PER_COUNTED_TASK = 8 * 1024
#: If one change causes many workflow steps, one transaction takes at most this many of them, for at most this CPU time.
#: The next transaction takes the remaining steps.
STEPS_PER_TRANSACTION = 200
STEPS_PER_TRANSACTION_S = 0.2
#: Work on many workflows is split into transactions of about this many seconds, so that other requests run in between.
TURN_S = 0.05
#: The maximum number of reports that one transaction judges.
REPORTS_PER_TRANSACTION = 500
#: The verdicts on the reports of this many leases of a task are kept, the newest ones. A repeated report of an older
#: lease gets CANCELLED.
MAX_VERDICTS_KEPT = 16
#: The maximum number of tasks that one poll leases. After tasks of `MAX_POLL_BYTES` in total, a poll leases no further
#: task, because workers reject an answer of more than 64 MB.
POLLED_PER_TRANSACTION = 500
MAX_POLL_BYTES = 16 * 1024 * 1024
#: A poll reads this many workflows at a time, so that only a few large workflows are in memory at once.
WORKFLOWS_PER_POLL_READ = 10
#: The maximum number of tasks that one transaction requeues.
REQUEUED_PER_TRANSACTION = 500
#: The maximum number of overdue tasks, and of overdue workflows, that one transaction handles.
EXPIRED_PER_STEP = 200
#: A workflow is set to FAILED if its steps have crashed the process this many times in a row.
MAX_CRASHES_PER_WORKFLOW = 2
#: The maximum nesting depth of sub-workflows, so that a workflow that starts itself as a sub-workflow fails.
MAX_SUB_WORKFLOW_DEPTH = 100
#: The maximum number of workflows that start each other without waiting for anything (see `start_chains.py`).
MAX_CHAINED_STARTS = 100_000

# -- messages to workflows

#: The maximum number of messages to a workflow that no task has taken, and of bytes in their payloads.
MAX_MESSAGES = 1000
MAX_MESSAGES_BYTES = 64 * 1024 * 1024
#: The maximum size of the payload of one message.
MAX_MESSAGE_BYTES = 1024 * 1024
#: The maximum number of messages that one PULL_WORKFLOW_MESSAGES task takes.
MAX_MESSAGE_BATCH = 100

# -- counters

#: The last poll is kept in memory for at most this many queues. The oldest poll is dropped first.
MAX_POLLS_KEPT = 10_000
#: A poll is not kept if its task type, domain and worker id together are longer than this.
MAX_POLL_NAME_CHARS = 1000
#: The maximum number of series of one metric. Further series are counted together under the label `other`.
MAX_SERIES_PER_METRIC = 200

# -- scripts

#: A script (INLINE, LAMBDA, JSON_JQ_TRANSFORM, a condition) that takes longer than this fails, as in Conductor.
SCRIPT_S = 4
#: A start or a synchronous update waits this long for queued scripts, so that its answer contains their values.
WAIT_FOR_SCRIPTS_S = 0.5
#: The memory limit of a script process, and of one JavaScript script in it.
SCRIPT_PROCESS_BYTES = 512 * 1024 * 1024
SCRIPT_BYTES = 128 * 1024 * 1024
#: Limits on the CPU time and the elapsed time of the first run of a script. A script that needs more time is queued for
#: a second run, which may take `SCRIPT_S`. So an endless script does not delay short scripts.
QUICK_SCRIPT_CPU_S = 0.1
QUICK_SCRIPT_S = 0.5
#: The maximum number of scripts in their first run at the same time. The same limit applies to second runs. Each run
#: uses a script process, which is started on demand.
SCRIPT_PROCESSES = 2
#: The maximum number of leased script tasks, including those that wait for a second run, and the maximum total size of
#: their inputs.
MAX_RUNNING_SCRIPTS = 500
MAX_RUNNING_SCRIPT_BYTES = 64 * 1024 * 1024

# -- other system tasks

#: The maximum number of system tasks that one transaction leases.
SYSTEM_TASKS_PER_POLL = 16
#: The maximum number of concurrent HTTP tasks.
HTTP_CALLS = 32
#: An HTTP task fails if the headers and the decompressed body of the answer are larger than this.
MAX_HTTP_ANSWER_BYTES = 4 * 1024 * 1024
#: The default timeout of an HTTP task, for connecting and for each read.
HTTP_TIMEOUT_MS = 3000
#: An HTTP task fails after this time, redirects included, even if its own timeouts are longer.
MAX_HTTP_CALL_S = 300
MAX_REDIRECTS = 10
#: The maximum number of EVENT and START_WORKFLOW tasks that one transaction executes.
STARTS_PER_TRANSACTION = 20

# -- schedules, secrets and events

#: The maximum number of cron expressions of one schedule.
MAX_CRON_SCHEDULES = 100
#: The maximum number of due times that one transaction handles. The next transaction handles the rest.
RUNS_PER_STEP = 50
#: A schedule without catch-up skips due times that are older than this. Newer due times still start their workflow,
#: because a busy coordinator can be late.
MAKE_UP_MS = 10_000
#: At most this many missed due times of a schedule are counted, because a year of downtime can miss millions.
MAX_MISSED_COUNTED = 100
#: The maximum number of recorded runs of one schedule. The oldest run is dropped first.
RUNS_KEPT_PER_SCHEDULE = 10_000
#: The maximum number of secrets that the API can store, and the maximum size of each.
MAX_SECRETS = 1000
MAX_SECRET_BYTES = 64 * 1024
#: The maximum number of keys for the API.
MAX_KEYS = 1000
#: The maximum number of actions of one event handler.
MAX_HANDLER_ACTIONS = 100
#: The maximum number of published events that one transaction handles. The next transaction handles the rest.
EVENTS_PER_STEP = 20

# -- dry runs

#: The maximum number of concurrent dry runs.
MAX_DRY_RUNS = 2
#: The maximum number of mocks of one dry run.
MAX_DRY_RUN_MOCKS = 10_000
#: A dry run, with its sub-workflows, may create this many tasks, plus `MAX_DRY_RUN_TASKS_PER_MOCK` for each mock. A dry
#: run that creates more is rejected.
MAX_DRY_RUN_TASKS = 1000
MAX_DRY_RUN_TASKS_PER_MOCK = 10
#: A dry run ends after this many steps; its answer shows the workflow at that point.
MAX_DRY_RUN_STEPS = 20_000
