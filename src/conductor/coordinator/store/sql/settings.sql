-- name: secrets
SELECT name, value FROM secret ORDER BY name

-- name: set secret
INSERT INTO secret (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: drop secret
DELETE FROM secret WHERE name = ?
