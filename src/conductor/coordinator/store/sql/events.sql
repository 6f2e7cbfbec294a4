-- name: event handler
SELECT body FROM event_handler WHERE name = ?

-- name: event handlers
SELECT body FROM event_handler WHERE (:event IS NULL OR event = :event) AND (active OR NOT :active) ORDER BY name

-- name: listening
SELECT 1 FROM event_handler WHERE event = ? AND active LIMIT 1

-- name: set event handler
INSERT INTO event_handler (name, event, active, body) VALUES (?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET event = excluded.event, active = excluded.active, body = excluded.body

-- name: drop event handler
DELETE FROM event_handler WHERE name = ?

-- name: add event
INSERT INTO event (event, payload, published_ms) VALUES (?, ?, ?)

-- name: waiting events
SELECT pk, event, payload, actions FROM event ORDER BY pk LIMIT ?

-- name: keep actions of event
UPDATE event SET actions = ? WHERE pk = ?

-- name: remove event
DELETE FROM event WHERE pk = ?
