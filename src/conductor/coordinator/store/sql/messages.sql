-- name: add message
-- Add a message to a workflow.
INSERT INTO workflow_message (workflow, id, name, received_ms, payload) VALUES (?, ?, ?, ?, ?)

-- name: messages
-- The messages to a workflow, oldest first, from an offset.
SELECT pk, id, received_ms, payload FROM workflow_message WHERE workflow = ? ORDER BY pk LIMIT ? OFFSET ?

-- name: messages of name
-- The messages to a workflow with a given name, oldest first.
SELECT pk, id, received_ms, payload FROM workflow_message WHERE workflow = ? AND name = ? ORDER BY pk LIMIT ?

-- name: message queue
-- The number of messages to a workflow, their size, and when the newest one arrived.
SELECT count(*), coalesce(sum(length(payload)), 0), coalesce(max(received_ms), 0)
FROM workflow_message WHERE workflow = ?

-- name: remove message
-- Remove a message.
DELETE FROM workflow_message WHERE pk = ?

-- name: remove messages
-- Remove all messages to a workflow.
DELETE FROM workflow_message WHERE workflow = ?
