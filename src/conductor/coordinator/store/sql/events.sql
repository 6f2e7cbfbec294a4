-- name: event handler
-- An event handler by its name.
SELECT body FROM event_handler WHERE name = ?

-- name: event handlers
-- The event handlers, of one event or of all, optionally only active ones.
SELECT body FROM event_handler WHERE (:event IS NULL OR event = :event) AND (active OR NOT :active) ORDER BY name

-- name: listening
-- Whether an event has an active handler.
SELECT 1 FROM event_handler WHERE event = ? AND active LIMIT 1

-- name: set event handler
-- Create or replace an event handler.
INSERT INTO event_handler (name, event, active, body) VALUES (?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET event = excluded.event, active = excluded.active, body = excluded.body

-- name: drop event handler
-- Remove an event handler.
DELETE FROM event_handler WHERE name = ?

-- name: add event
-- Publish an event.
INSERT INTO event (event, payload, published_ms) VALUES (?, ?, ?)

-- name: waiting events
-- The oldest events whose handlers have not finished.
SELECT pk, event, payload, actions FROM event ORDER BY pk LIMIT ?

-- name: keep actions of event
-- Store the actions of an event that are left to run.
UPDATE event SET actions = ? WHERE pk = ?

-- name: remove event
-- Remove an event whose handlers have finished.
DELETE FROM event WHERE pk = ?
