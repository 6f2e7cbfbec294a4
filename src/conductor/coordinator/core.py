"""The coordinator without HTTP: builds the parts, runs the timer, and tells the parts what each commit has changed.

Routes and system tasks use one of its interfaces: `tasks` (poll, report, heartbeat), `workflows` (start, act, wait) and
`reader`. Changes of definitions, schedules and settings run through `write`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from conductor.common.clock import Clock
from conductor.coordinator.audit import AuditRetention
from conductor.coordinator.definitions.definition_snapshots import Snapshots
from conductor.coordinator.definitions.likely_mistakes import Script
from conductor.coordinator.definitions.workflow_plan import SYSTEM_DOMAIN
from conductor.coordinator.events.event_actions import EventActions
from conductor.coordinator.events.event_handler_loop import EventHandlerLoop
from conductor.coordinator.keys.key_store import Keys
from conductor.coordinator.limits import EVENTS_PER_STEP, EXPIRED_PER_STEP, MAX_BODY_BYTES, RUNS_PER_STEP
from conductor.coordinator.reader import Reader
from conductor.coordinator.replication.replicator import Replicator
from conductor.coordinator.schedules.schedule_runner import ScheduleRunner
from conductor.coordinator.server_metrics import RequestTimes, Tally
from conductor.coordinator.settings.secrets import Secrets
from conductor.coordinator.store.retention import KEEP_ALL, Limits, Retention
from conductor.coordinator.store.statements import NEAREST_WAKE
from conductor.coordinator.store.transaction import EndedWorkflow, Notes, Tx
from conductor.coordinator.store.write_probe import WriteProbe
from conductor.coordinator.store.writer import Store, StoreError
from conductor.coordinator.task_authority import TaskAuthority
from conductor.coordinator.tasks.clock_correction import shift_running_times
from conductor.coordinator.tasks.deadline_timer import DeadlineTimer
from conductor.coordinator.tasks.poll_data import PollData
from conductor.coordinator.tasks.task_queue import TaskQueue
from conductor.coordinator.views.change_feed import ChangeFeed
from conductor.coordinator.views.load_history import LoadHistory
from conductor.coordinator.workflow_service import WorkflowService
from conductor.coordinator.workflows.deadlines import Deadlines
from conductor.coordinator.workflows.effects import FOREVER_MS
from conductor.coordinator.workflows.executions import Executions
from conductor.coordinator.workflows.fast_loops import FastLoops
from conductor.protocol.statuses import WorkflowStatus
from conductor.protocol.views import ReplicationState
from conductor.protocol.wire import EPOCH_HEADER, FEATURES, FEATURES_HEADER, MAX_BODY_HEADER
from conductor.telemetry.tracing import read_trace_id

logger = logging.getLogger(__name__)

#: If the timer cannot apply the due deadlines, it tries again after this time.
RETRY_STEP_MS = 1000
#: The pause after an unexpected error of a background task, before the task starts again.
RESTART_TASK_S = 60


FindSyntaxErrors = Callable[[Sequence[Script]], Awaitable[list[str | None]]]


async def _find_no_syntax_errors(scripts: Sequence[Script]) -> list[str | None]:
    return [None for _ in scripts]


class Core:
    """A coordinator without HTTP: its parts, and its timer."""

    def __init__(
        self, store: Store, clock: Clock, keep: Limits = KEEP_ALL, replicator: Replicator | None = None
    ) -> None:
        self.store = store
        self.clock = clock
        self.keep = keep
        self.started_ms = clock.wall_ms()
        #: Runs a function in a transaction, and returns after the commit.
        self.write = store.write
        self.probe = WriteProbe(store)
        self._replicator = replicator
        #: The task that reads the replica's state. Callers share it while it runs.
        self._replication: asyncio.Task[ReplicationState] | None = None
        self.is_draining = False
        #: Headers of every answer to a poll: the features of a coordinator, its epoch, and the largest body it accepts.
        self.poll_headers = (
            (FEATURES_HEADER, FEATURES),
            (MAX_BODY_HEADER, str(MAX_BODY_BYTES)),
            (EPOCH_HEADER, store.fence.token.decode()),
        )
        #: Metric counters of events that need no commit. `store.counts` has the counters of committed transactions.
        self.counts = Tally()
        self.request_times = RequestTimes()
        self.secrets = Secrets(store.salt)
        store.call(self.secrets.load)
        self.keys = Keys(store.salt, clock)
        store.call(self.keys.load)
        snapshots, poll_data = Snapshots(), PollData()
        self._queue = TaskQueue(snapshots, self.secrets)
        self._executions = Executions(self._queue, snapshots, poll_data)
        self._deadlines = Deadlines(self._executions, self._queue, snapshots)
        self.tasks = TaskAuthority(store, clock, self._queue, self._executions, self._deadlines, poll_data, self.counts)
        self.workflows = WorkflowService(store, clock, self._executions)
        self.reader = Reader(store, snapshots)
        store.on_clock_jump = shift_running_times
        self._schedules = ScheduleRunner(self._executions)
        self._events = EventHandlerLoop(EventActions(self._executions, self.tasks.judge))
        self._timer = DeadlineTimer(clock, self._tick_and_log)
        #: Tells open web UIs which workflows have changed.
        self.change_feed = ChangeFeed(store.ids.workflow)
        #: Records at intervals how many tasks wait in queues and how many are held by workers, for the web UI.
        self.load_history = LoadHistory(store)
        self._audit_retention = None if keep.audit_s is None else AuditRetention(store, clock, keep.audit_s)
        self._retention = Retention(store, clock, keep) if keep else None
        self.fast_loops = FastLoops(clock)
        self._background: list[asyncio.Task[None]] = []
        #: Called with (task type, domain) of each system queue in which a task has become ready.
        self.on_system_task: Callable[[str, str], None] = lambda _task_type, _domain: None
        #: Returns for each script of a definition the error of its engine's parser, or None. Set by the system workers.
        self.find_syntax_errors: FindSyntaxErrors = _find_no_syntax_errors

    async def start(self) -> None:
        """Start the timer and the other background tasks. The timer first applies the deadlines that have passed."""
        self.store.before_commit = self.tasks.grant_to_parked
        self.store.on_commit, self.store.notify_loop = self._after_commit, asyncio.get_running_loop()
        self._timer.add(self.clock.wall_ms())
        self._background.append(asyncio.create_task(self._timer.run(), name="coordinator-timer"))
        self._keep_running("load-history", self.load_history.run)
        if self._retention is not None:
            self._keep_running("retention", self._retention.run)
        if self._audit_retention is not None:
            self._keep_running("audit", self._audit_retention.run)

    def _keep_running(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Start a background task. After an unexpected error, start it again."""

        async def repeat() -> None:
            while True:
                try:
                    return await run()
                except Exception:
                    logger.exception("Background task failed: name=%s retry_in=%ds", name, RESTART_TASK_S)
                await self.clock.sleep(RESTART_TASK_S)

        self._background.append(asyncio.create_task(repeat(), name=f"coordinator-{name}"))

    @property
    def replica_url(self) -> str | None:
        """The URL of the replica without its password; None without replication."""
        return None if self._replicator is None else self._replicator.shown_url

    async def read_replication(self) -> ReplicationState | None:
        """Return the state of the replica; None without replication.

        Concurrent callers share one reading. `/health` needs no key, and a Litestream that hangs would otherwise hold
        a thread for each request, until no thread is left for other work.
        """
        if self._replicator is None:
            return None
        if self._replication is None or self._replication.done():
            self._replication = asyncio.create_task(asyncio.to_thread(self._replicator.read_state))
        return await asyncio.shield(self._replication)

    def drain(self) -> None:
        """Answer every parked poll and every caller that waits for a workflow, and end the event streams."""
        self.is_draining = True
        self.tasks.parked.close()
        self.workflows.close()
        self.change_feed.close()

    async def stop(self) -> None:
        """Drain, and cancel the background tasks, such as the timer and the retention."""
        self.drain()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    def _after_commit(self, notes: Notes) -> None:
        if notes.keys is not None:
            self.keys.replace(notes.keys)
        if notes.secrets:
            self.secrets.apply(notes.secrets)
        self.tasks.after_commit(notes)
        for task_type, domain in notes.ready:
            if domain.startswith(SYSTEM_DOMAIN):
                self.on_system_task(task_type, domain)
        self._timer.add(notes.wake_at_ms)
        self._timer.check_clock()
        for ended in notes.ended:
            _log_end(ended)
        for reached in notes.loop_rounds:
            self.fast_loops.note(reached)
        if notes.has_ended and self._retention is not None:
            self._retention.notice()
        self.workflows.after_commit(notes.changed_workflows)
        self.change_feed.note(notes)

    def tick(self, tx: Tx) -> int | None:
        """Act on deadlines, schedules and events that are due. Return the next deadline."""
        self._deadlines.apply(tx, EXPIRED_PER_STEP)
        self._executions.terminate_some(tx, EXPIRED_PER_STEP)
        self._queue.release_rate_limited(tx)
        self._schedules.start_due(tx, RUNS_PER_STEP)
        self._events.handle(tx, EVENTS_PER_STEP)
        nearest = tx.first(NEAREST_WAKE)
        tx.notes.add_wake(nearest)
        tx.cache.nothing_due_before_ms = FOREVER_MS if nearest is None else nearest
        return tx.notes.wake_at_ms

    async def _tick_and_log(self) -> int | None:
        if self.store.fence.reason is not None:
            return None  # a newer coordinator acts on deadlines and schedules
        try:
            return await self.write(self.tick)
        except StoreError as error:
            logger.error("Deadlines could not be applied: error=%r retry_in=%dms", str(error), RETRY_STEP_MS)
        # The timer must survive every error, because all workflows depend on it.
        except Exception:
            logger.exception("Deadlines could not be applied: retry_in=%dms", RETRY_STEP_MS)
        return self.clock.wall_ms() + RETRY_STEP_MS


def _log_end(ended: EndedWorkflow) -> None:
    has_failed = ended.status in (WorkflowStatus.FAILED, WorkflowStatus.TIMED_OUT)
    about = {"workflow_id": ended.workflow_id, "workflow_type": ended.name, "status": ended.status}
    if ended.traceparent is not None:
        about["trace_id"] = read_trace_id(ended.traceparent)
    why = f": {' '.join(ended.reason.split())}" if ended.reason else ""
    logger.log(
        logging.WARNING if has_failed else logging.INFO,
        "Workflow %s (%s) ended as %s%s",
        ended.workflow_id,
        ended.name,
        ended.status,
        why,
        extra=about,
    )
