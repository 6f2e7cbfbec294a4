-- The scripts that migrate a file from one schema version to the next. A released script is never edited.

-- from: 1
ALTER TABLE task RENAME COLUMN kind TO operator;
ALTER TABLE task RENAME COLUMN lease_ms TO lease_until_ms;
ALTER TABLE task RENAME COLUMN response_ms TO response_timeout_ms;
ALTER TABLE task RENAME COLUMN poll_ms TO poll_timeout_ms;
ALTER TABLE task RENAME COLUMN total_ms TO total_timeout_ms;
ALTER TABLE task RENAME COLUMN ready_ms TO ready_since_ms;
ALTER TABLE task RENAME COLUMN due_ms TO due_at_ms;
ALTER TABLE task RENAME COLUMN wake_ms TO wake_at_ms;
ALTER TABLE task ADD COLUMN former_workers TEXT;
ALTER TABLE workflow RENAME COLUMN wake_ms TO wake_at_ms;
ALTER TABLE workflow ADD COLUMN restless INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task_data DROP COLUMN more;
ALTER TABLE task_data ADD COLUMN reports BLOB;
UPDATE task_data SET reports = CAST((
  SELECT json_group_object(CAST(lease_no AS TEXT), json_array(report_id, verdict)) FROM report WHERE task = task_data.pk
) AS BLOB) WHERE pk IN (SELECT task FROM report);
DROP TABLE report;
CREATE TABLE suspect (workflow INTEGER PRIMARY KEY, times INTEGER NOT NULL);

-- from: 2
ALTER TABLE workflow ADD COLUMN traceparent TEXT;
ALTER TABLE task_data ADD COLUMN definition BLOB;
CREATE INDEX task_sub_workflow ON task (sub_workflow) WHERE sub_workflow IS NOT NULL AND executed = 0;
CREATE TABLE schedule (
  name TEXT PRIMARY KEY,
  workflow_name TEXT NOT NULL,
  paused INTEGER NOT NULL,
  body BLOB NOT NULL,
  created_ms INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE schedule_due (
  schedule TEXT NOT NULL REFERENCES schedule,
  position INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (schedule, position)
) WITHOUT ROWID;
CREATE INDEX schedule_due_at ON schedule_due (at_ms);
CREATE TABLE schedule_run (
  pk INTEGER PRIMARY KEY AUTOINCREMENT,
  schedule TEXT NOT NULL,
  due_ms INTEGER NOT NULL,
  ran_ms INTEGER NOT NULL,
  workflow_name TEXT NOT NULL,
  workflow INTEGER,
  state TEXT NOT NULL,
  reason TEXT,
  zone TEXT NOT NULL,
  request BLOB NOT NULL
);
CREATE INDEX schedule_run_of ON schedule_run (schedule, pk);
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
CREATE TABLE event (
  pk INTEGER PRIMARY KEY AUTOINCREMENT,
  event TEXT NOT NULL,
  payload BLOB NOT NULL,
  published_ms INTEGER NOT NULL
);

-- from: 3
CREATE TABLE turn (
  workflow INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  key TEXT NOT NULL,
  place INTEGER,
  asked BLOB
);
CREATE INDEX turn_line ON turn (name, key, place);

-- from: 4
SELECT 'nothing to change: an output that is also that of the last task is stored once from here on';

-- from: 5
ALTER TABLE task ADD COLUMN granted_for INTEGER;
CREATE TABLE epoch (
  number INTEGER PRIMARY KEY,
  first_workflow INTEGER NOT NULL,
  first_task INTEGER NOT NULL,
  first_run INTEGER NOT NULL,
  nonce BLOB NOT NULL
);
CREATE TABLE termination (
  workflow INTEGER PRIMARY KEY,
  reason TEXT NOT NULL
);
ALTER TABLE event ADD COLUMN actions BLOB;

-- from: 6
CREATE INDEX IF NOT EXISTS task_by_hand ON task (scheduled_ms, pk)
WHERE operator IN ('HUMAN', 'WAIT') AND ended_ms = 0 AND due_at_ms IS NULL;
CREATE INDEX IF NOT EXISTS workflow_failed ON workflow (ended_ms) WHERE status IN ('FAILED', 'TIMED_OUT');
CREATE TABLE IF NOT EXISTS workflow_message (
  pk INTEGER PRIMARY KEY AUTOINCREMENT,
  workflow INTEGER NOT NULL,
  id TEXT NOT NULL,
  name TEXT,
  received_ms INTEGER NOT NULL,
  payload BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS workflow_message_of ON workflow_message (workflow, pk);
ALTER TABLE workflow ADD COLUMN has_calls INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN step_line INTEGER;
ALTER TABLE task ADD COLUMN step_count INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN step_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN suspended INTEGER NOT NULL DEFAULT 0;
CREATE TABLE step (
  pk INTEGER PRIMARY KEY,
  line INTEGER NOT NULL,
  name TEXT NOT NULL,
  number INTEGER NOT NULL,
  kind TEXT NOT NULL,
  state TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  result BLOB,
  started_ms INTEGER NOT NULL,
  ended_ms INTEGER,
  due_at_ms INTEGER,
  workflow INTEGER
);
CREATE UNIQUE INDEX step_key ON step (line, name, number);
CREATE INDEX step_waiting ON step (line) WHERE ended_ms IS NULL;
CREATE INDEX step_workflow ON step (workflow) WHERE workflow IS NOT NULL;
ALTER TABLE workflow_data ADD COLUMN started_by TEXT;
CREATE TABLE api_key (
  pk INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  roles TEXT NOT NULL,
  task_types TEXT,
  created_ms INTEGER NOT NULL
);
CREATE TABLE api_key_secret (
  pk INTEGER PRIMARY KEY AUTOINCREMENT,
  key INTEGER NOT NULL REFERENCES api_key,
  digest BLOB NOT NULL,
  created_ms INTEGER NOT NULL,
  expires_ms INTEGER
);
CREATE TABLE audit (
  pk INTEGER PRIMARY KEY,
  at_ms INTEGER NOT NULL,
  action TEXT NOT NULL,
  actor TEXT NOT NULL,
  worker_id TEXT,
  workflow INTEGER,
  subject TEXT NOT NULL,
  reason TEXT
);
CREATE INDEX audit_time ON audit (at_ms, pk);
CREATE INDEX audit_workflow ON audit (workflow) WHERE workflow IS NOT NULL;
