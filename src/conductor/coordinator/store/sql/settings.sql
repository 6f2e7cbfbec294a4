-- name: secrets
-- The names and the encrypted values of all stored secrets.
SELECT name, value FROM secret ORDER BY name

-- name: set secret
-- Create or replace a secret.
INSERT INTO secret (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: drop secret
-- Remove a secret.
DELETE FROM secret WHERE name = ?
