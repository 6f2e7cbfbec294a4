"""Messages to running workflows: a queue for each workflow, and the rule that decides which task takes a message.

A workflow's messages wait in the table `workflow_message` in the order of their arrival. A task takes messages in the
transaction that records them in the task, so exactly one task gets each message, and a crash loses none.

The rule:

- The name of a message is the field `name` of its payload, if that is a text. Other messages have no name.
- A PULL_WORKFLOW_MESSAGES task takes the oldest messages, whatever their names are, as on Conductor.
- A worker task that waits for a name takes the oldest message with this name, and leaves all others.
- If a message arrives while both wait, the task that waits for its name takes it. Among tasks of the same kind, the
  task that was scheduled first takes it.
- A task that starts to wait takes a message that has arrived before, however long ago. Conductor drops the messages of
  a workflow 24 hours after the last one; the coordinator keeps them as long as the workflow.

`add` stores a message, `take` takes messages for a worker task, and `read` shows them to the decider, whose decisions
list the messages that PULL_WORKFLOW_MESSAGES tasks take. `executions.Executions.send` calls these functions in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import msgspec

from conductor.coordinator.limits import (
    MAX_MESSAGE_BYTES,
    MAX_MESSAGES,
    MAX_MESSAGES_BYTES,
    MAX_VALUE_BYTES,
)
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.store.statements import (
    ADD_MESSAGE,
    MESSAGE_QUEUE,
    MESSAGES,
    MESSAGES_OF_NAME,
    REMOVE_MESSAGE,
    StoredMessage,
)
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.workflows.state import Message

#: The messages of one batch may have this many bytes, which leaves room for the other fields of the task's output.
MAX_BATCH_BYTES = MAX_VALUE_BYTES - 64 * 1024


def add(tx: Tx, workflow: int, payload: dict[str, Any], *, is_awaited: bool = False) -> str:
    """Add a message to a workflow, and return the id of the message.

    Args:
        tx: The transaction.
        workflow: The key of the workflow.
        payload: The message.
        is_awaited: Whether a task takes the message in this transaction, so that the limits of the queue do not apply.

    Raises:
        ApiError: The message is too large (413), or the workflow has too many messages (429).
    """
    encoded = msgspec.json.encode(payload)
    if len(encoded) > MAX_MESSAGE_BYTES:
        raise ApiError(
            413,
            f"the message has {len(encoded)} bytes, and at most {MAX_MESSAGE_BYTES} are allowed; "
            "store the data elsewhere, and send a reference to it",
        )
    queue = None if is_awaited else tx.first(MESSAGE_QUEUE, workflow)
    if queue is not None and (queue.number >= MAX_MESSAGES or queue.payload_bytes + len(encoded) > MAX_MESSAGES_BYTES):
        raise ApiError(
            429,
            f"workflow {tx.ids.workflow(workflow)} has {queue.number} messages with {queue.payload_bytes} bytes that "
            f"no task has taken; the limits are {MAX_MESSAGES} messages and {MAX_MESSAGES_BYTES} bytes",
        )
    message_id = str(uuid4())
    tx.run(ADD_MESSAGE, workflow, message_id, name_of(payload), tx.now_ms, encoded)
    return message_id


def name_of(payload: dict[str, Any]) -> str | None:
    """Return the name of a message; None if it has no name."""
    name = payload.get("name")
    return name if isinstance(name, str) else None


def read(tx: Tx, workflow: int, skip: int, count: int) -> list[Message]:
    """Return up to `count` messages to a workflow, oldest first, without the first `skip`.

    Returns fewer messages if together they would be larger than the output of a task may be.
    """
    return _read_batch(tx, workflow, tx.rows(MESSAGES, workflow, count, skip))


def take(tx: Tx, workflow: int, name: str | None = None, count: int = 1) -> list[dict[str, Any]]:
    """Take up to `count` messages to a workflow, oldest first.

    The caller records them in the same transaction.

    Args:
        tx: The transaction.
        workflow: The key of the workflow.
        name: Take only messages with this name; None to take messages with any name or none.
        count: The maximum number of messages. Fewer are taken if together they would be larger than the output of a
            task may be.

    Returns:
        The messages with `id`, `workflowId`, `payload` and `receivedAt`.
    """
    rows = tx.rows(MESSAGES, workflow, count, 0) if name is None else tx.rows(MESSAGES_OF_NAME, workflow, name, count)
    messages = _read_batch(tx, workflow, rows)
    remove(tx, [message.key for message in messages])
    return [message.body for message in messages]


def remove(tx: Tx, keys: Iterable[int]) -> None:
    """Remove messages that a task has taken."""
    tx.run_many(REMOVE_MESSAGE, [(key,) for key in keys])


def _read_batch(tx: Tx, workflow: int, rows: Iterable[StoredMessage]) -> list[Message]:
    """Return the first messages of `rows` that fit into `MAX_BATCH_BYTES`, at least one."""
    workflow_id, messages, size = tx.ids.workflow(workflow), list[Message](), 0
    for row in rows:
        size += len(row.payload)
        if messages and size > MAX_BATCH_BYTES:
            break
        body = {
            "id": row.id,
            "workflowId": workflow_id,
            "payload": msgspec.json.decode(row.payload),
            "receivedAt": _format_time(row.received_ms),
        }
        messages.append(Message(row.pk, body))
    return messages


def _format_time(at_ms: int) -> str:
    """Return a time as Conductor writes it, such as 2026-01-31T12:00:00.250Z."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
