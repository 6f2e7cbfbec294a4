-- The whole schema, version 7. Public ids are derived from the integer keys of workflows, tasks and runs (ids.py).
-- The rows that change often (task, workflow) are small, because their JSON is stored in *_data. Most indexes contain
-- only unfinished tasks and workflows, so that the cost of a task does not grow with the number of finished ones.

CREATE TABLE meta (
  key TEXT PRIMARY KEY,
  value BLOB NOT NULL
) WITHOUT ROWID;

-- One row per start of a coordinator on this file; see ids.py.
CREATE TABLE epoch (
  number INTEGER PRIMARY KEY,
  first_workflow INTEGER NOT NULL, -- the lowest keys that new rows could get after this start
  first_task INTEGER NOT NULL,
  first_run INTEGER NOT NULL,
  nonce BLOB NOT NULL
);

CREATE TABLE task_type (
  pk INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  definition BLOB,                 -- JSON; NULL while no definition is registered
  concurrent_limit INTEGER NOT NULL DEFAULT 0,
  rate_limit INTEGER NOT NULL DEFAULT 0,
  rate_window_ms INTEGER NOT NULL DEFAULT 1000
);

CREATE TABLE queue (
  pk INTEGER PRIMARY KEY,
  type INTEGER NOT NULL REFERENCES task_type,
  domain TEXT NOT NULL,            -- '' = no domain
  UNIQUE (type, domain)
);

-- The start times of rate-limited tasks. The next poll deletes rows that are older than the rate window of the type.
CREATE TABLE rate_start (
  type INTEGER NOT NULL,
  at_ms INTEGER NOT NULL
);
CREATE INDEX rate_start_window ON rate_start (type, at_ms);

CREATE TABLE workflow_def (
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  body BLOB NOT NULL,
  created_ms INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL,
  PRIMARY KEY (name, version)
) WITHOUT ROWID;

CREATE TABLE json_schema (
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (name, version)
) WITHOUT ROWID;

-- A workflow definition together with its task definitions, as they were when a workflow was started. Workflows with
-- the same definitions share a row. The key is a digest of the body, so the same content always gets the same key.
CREATE TABLE snapshot (
  pk INTEGER PRIMARY KEY,
  body BLOB NOT NULL
);

CREATE TABLE workflow (
  pk INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  snapshot INTEGER NOT NULL REFERENCES snapshot,
  status TEXT NOT NULL,
  priority INTEGER NOT NULL,
  correlation_id TEXT,
  idempotency_key TEXT,
  parent_task INTEGER,
  created_ms INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL,
  ended_ms INTEGER,
  retried_ms INTEGER NOT NULL DEFAULT 0,
    wake_at_ms INTEGER,              -- when the timeout of the workflow or the wait of one of its tasks is due
  last_task INTEGER,               -- the task that was scheduled last
  restless INTEGER NOT NULL DEFAULT 0,     -- number of tasks created since it last waited
  traceparent TEXT,                -- W3C trace context of the start request
  has_calls INTEGER NOT NULL DEFAULT 0     -- 1: a durable step of one of its tasks has started a workflow
);
CREATE INDEX workflow_open ON workflow (name, pk) WHERE ended_ms IS NULL;
CREATE INDEX workflow_wake ON workflow (wake_at_ms) WHERE wake_at_ms IS NOT NULL;
CREATE INDEX workflow_ended ON workflow (ended_ms) WHERE ended_ms IS NOT NULL;
CREATE INDEX workflow_failed ON workflow (ended_ms) WHERE status IN ('FAILED', 'TIMED_OUT');
CREATE INDEX workflow_correlated ON workflow (correlation_id) WHERE correlation_id IS NOT NULL;
CREATE INDEX workflow_idempotent ON workflow (name, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX workflow_snapshot ON workflow (snapshot);
CREATE INDEX workflow_parent ON workflow (parent_task) WHERE parent_task IS NOT NULL;

-- Workflows with a rate limit (rateLimitConfig) that have not ended.
CREATE TABLE turn (
  workflow INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  key TEXT NOT NULL,
  place INTEGER,                   -- place in the line of waiting workflows; NULL: the workflow runs
  asked BLOB                       -- JSON: the action to run when the turn comes; NULL: take the first step
);
CREATE INDEX turn_line ON turn (name, key, place);

-- Sub-workflows that are still to be terminated, because the workflow that started them has ended.
CREATE TABLE termination (
  workflow INTEGER PRIMARY KEY,
  reason TEXT NOT NULL
);

CREATE TABLE workflow_data (
  pk INTEGER PRIMARY KEY,
  input BLOB NOT NULL,
  output BLOB,                     -- NULL if a COMPLETED workflow has the output of its last task
  variables BLOB,
  task_to_domain BLOB,
  reason TEXT,
  created_by TEXT,
  failed_task INTEGER,
  started_by TEXT                  -- JSON: key and address of the client that started the workflow
);

CREATE TABLE task (
  pk INTEGER PRIMARY KEY AUTOINCREMENT,
  workflow INTEGER NOT NULL REFERENCES workflow,
  queue INTEGER REFERENCES queue,  -- NULL: workers do not poll this task
  type INTEGER NOT NULL REFERENCES task_type,
  operator TEXT NOT NULL,
  ref TEXT NOT NULL,
  seq INTEGER NOT NULL,
  iteration INTEGER NOT NULL DEFAULT 0,
  status TEXT NOT NULL,
  priority INTEGER NOT NULL DEFAULT 0,
  retry_count INTEGER NOT NULL DEFAULT 0,
  retried_task INTEGER,            -- the attempt before this one
  retried INTEGER NOT NULL DEFAULT 0,
  executed INTEGER NOT NULL DEFAULT 0,
  poll_count INTEGER NOT NULL DEFAULT 0,
  scheduled_ms INTEGER NOT NULL,
  first_scheduled_ms INTEGER NOT NULL,
  started_ms INTEGER NOT NULL DEFAULT 0,
  updated_ms INTEGER NOT NULL DEFAULT 0,
  ended_ms INTEGER NOT NULL DEFAULT 0,
  start_delay_s INTEGER NOT NULL DEFAULT 0,
  callback_after_s INTEGER NOT NULL DEFAULT 0,
  worker_id TEXT,
  lease_no INTEGER NOT NULL DEFAULT 0,
  lease_until_ms INTEGER,                -- end of the open lease; NULL: no open lease
  response_timeout_ms INTEGER NOT NULL,
  timeout_ms INTEGER NOT NULL DEFAULT 0,
  poll_timeout_ms INTEGER NOT NULL DEFAULT 0,      -- maximum time in the queue
  total_timeout_ms INTEGER NOT NULL DEFAULT 0,     -- maximum time over all attempts
  alerted INTEGER NOT NULL DEFAULT 0,      -- 1: an ALERT_ONLY timeout was logged, and is not logged again
  ready_since_ms INTEGER,                -- pollable since this time; NULL: not pollable
  due_at_ms INTEGER,                  -- when it becomes pollable, or when a WAIT completes
  wake_at_ms INTEGER,                 -- the nearest deadline of this task
  sub_workflow INTEGER,
  former_workers TEXT,             -- JSON: list of the last workers that held the task before
  granted_for INTEGER,             -- the task whose report asked for this delivery; NULL: a poll asked for it
  step_line INTEGER,               -- the attempt that recorded the first durable step of the task
  step_count INTEGER NOT NULL DEFAULT 0,   -- the recorded steps of the task, and their bytes
  step_bytes INTEGER NOT NULL DEFAULT 0,
  suspended INTEGER NOT NULL DEFAULT 0     -- 1: no worker holds the task until a step stops waiting; 2: a step has
                                           -- stopped waiting while a worker held the task
);
CREATE INDEX task_ready ON task (queue, priority DESC, ready_since_ms, pk) WHERE ready_since_ms IS NOT NULL;
CREATE INDEX task_wake ON task (wake_at_ms) WHERE wake_at_ms IS NOT NULL;
CREATE INDEX task_leased ON task (type) WHERE lease_until_ms IS NOT NULL;   -- counts tasks for concurrency limits
CREATE INDEX task_delayed ON task (queue) WHERE due_at_ms IS NOT NULL;
CREATE INDEX task_pending ON task (workflow, pk) WHERE executed = 0;
-- The tasks that wait for a person or a signal.
CREATE INDEX task_by_hand ON task (scheduled_ms, pk)
WHERE operator IN ('HUMAN', 'WAIT') AND ended_ms = 0 AND due_at_ms IS NULL;
CREATE INDEX task_ref ON task (workflow, ref, pk);
CREATE INDEX task_sub_workflow ON task (sub_workflow) WHERE sub_workflow IS NOT NULL AND executed = 0;

CREATE TABLE task_data (
  pk INTEGER PRIMARY KEY,
  input BLOB NOT NULL,
  output BLOB,
  reason TEXT,
  definition BLOB,                 -- JSON: the definition of a task that was created at run time
  reports BLOB                     -- JSON: lease number -> [report id, verdict], to give a repeated report the same
                                   -- answer
);

-- The durable steps of tasks. `line` is the attempt that recorded the first step. Its retries share the steps.
CREATE TABLE step (
  pk INTEGER PRIMARY KEY,
  line INTEGER NOT NULL,
  name TEXT NOT NULL,
  number INTEGER NOT NULL,         -- counts the steps of one name, from 1
  kind TEXT NOT NULL,
  state TEXT NOT NULL,
  fingerprint TEXT NOT NULL,       -- the function and a digest of the arguments
  result BLOB,                     -- JSON: the result; of a failed step, the error
  started_ms INTEGER NOT NULL,
  ended_ms INTEGER,                -- NULL: the step waits
  due_at_ms INTEGER,               -- when the step stops waiting
  workflow INTEGER                 -- the workflow that the step has started
);
CREATE UNIQUE INDEX step_key ON step (line, name, number);
CREATE INDEX step_waiting ON step (line) WHERE ended_ms IS NULL;
CREATE INDEX step_workflow ON step (workflow) WHERE workflow IS NOT NULL;

CREATE TABLE task_log (
  pk INTEGER PRIMARY KEY,
  task_id TEXT NOT NULL,           -- the id as clients write it, so that reading a log needs no look-up of the task
  at_ms INTEGER NOT NULL,
  line TEXT NOT NULL
);
CREATE INDEX task_log_task ON task_log (task_id);

-- Workflows that were being decided when the process died, and the number of such deaths in a row.
CREATE TABLE suspect (
  workflow INTEGER PRIMARY KEY,
  times INTEGER NOT NULL
);

-- Messages to workflows that no task has taken yet.
CREATE TABLE workflow_message (
  pk INTEGER PRIMARY KEY AUTOINCREMENT,    -- the order of arrival
  workflow INTEGER NOT NULL,
  id TEXT NOT NULL,
  name TEXT,                       -- the field `name` of the payload, if it is a text
  received_ms INTEGER NOT NULL,
  payload BLOB NOT NULL            -- the last column, so that SQLite can read the others without it
);
CREATE INDEX workflow_message_of ON workflow_message (workflow, pk);

-- Schedules, which start workflows at the times of their cron expressions.
CREATE TABLE schedule (
  name TEXT PRIMARY KEY,
  workflow_name TEXT NOT NULL,
  paused INTEGER NOT NULL,
  body BLOB NOT NULL,              -- JSON: the whole schedule
  created_ms INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL
) WITHOUT ROWID;

-- The next due time of each cron expression. A paused schedule, or one that has reached its end time, has no rows.
CREATE TABLE schedule_due (
  schedule TEXT NOT NULL REFERENCES schedule,
  position INTEGER NOT NULL,       -- index of the cron expression in the schedule
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (schedule, position)
) WITHOUT ROWID;
CREATE INDEX schedule_due_at ON schedule_due (at_ms);

-- The runs of schedules, including workflows that could not be started.
CREATE TABLE schedule_run (
  pk INTEGER PRIMARY KEY AUTOINCREMENT,
  schedule TEXT NOT NULL,
  due_ms INTEGER NOT NULL,
  ran_ms INTEGER NOT NULL,
  workflow_name TEXT NOT NULL,
  workflow INTEGER,                -- NULL: the workflow could not be started
  state TEXT NOT NULL,
  reason TEXT,
  zone TEXT NOT NULL,
  request BLOB NOT NULL            -- JSON: the start request of the schedule at that time
);
CREATE INDEX schedule_run_of ON schedule_run (schedule, pk);

-- Secrets that were set through the API. The values are encrypted.
CREATE TABLE secret (
  name TEXT PRIMARY KEY,
  value BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE event_handler (
  name TEXT PRIMARY KEY,
  event TEXT NOT NULL,
  active INTEGER NOT NULL,
  body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX event_handler_of ON event_handler (event);

-- Published events whose handlers have not finished.
CREATE TABLE event (
  pk INTEGER PRIMARY KEY AUTOINCREMENT,
  event TEXT NOT NULL,
  payload BLOB NOT NULL,
  published_ms INTEGER NOT NULL,
  actions BLOB                     -- JSON: the actions that are left to run; NULL: none has run yet
);

-- Keys for the API. The number of a removed secret is never used again, because tokens contain that number.
CREATE TABLE api_key (
  pk INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  roles TEXT NOT NULL,             -- JSON: list of roles
  task_types TEXT,                 -- JSON: list of the task types of a worker; NULL: all
  created_ms INTEGER NOT NULL
);
CREATE TABLE api_key_secret (
  pk INTEGER PRIMARY KEY AUTOINCREMENT,
  key INTEGER NOT NULL REFERENCES api_key,
  digest BLOB NOT NULL,
  created_ms INTEGER NOT NULL,
  expires_ms INTEGER               -- when a replaced secret expires; NULL: the current secret
);

-- Which client did what. The client that started a workflow is in workflow_data.started_by, which costs no statement of
-- its own. It moves to this table when the workflow is removed.
CREATE TABLE audit (
  pk INTEGER PRIMARY KEY,
  at_ms INTEGER NOT NULL,
  action TEXT NOT NULL,
  actor TEXT NOT NULL,             -- JSON: key (null: none) and address
  worker_id TEXT,
  workflow INTEGER,
  subject TEXT NOT NULL,           -- name of the workflow, definition, schedule, secret or key
  reason TEXT
);
CREATE INDEX audit_time ON audit (at_ms, pk);
CREATE INDEX audit_workflow ON audit (workflow) WHERE workflow IS NOT NULL;
