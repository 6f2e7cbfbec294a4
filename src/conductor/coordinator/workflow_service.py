"""The workflow operations that routes and system tasks use: start workflows, act on them, and wait for them.

The rules are in `workflows/executions.py`. Callers use `executions` inside a transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from conductor.common.clock import Clock
from conductor.coordinator.limits import MAX_DRY_RUNS, WAIT_FOR_SCRIPTS_S
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.store.writer import Store
from conductor.coordinator.workflows.executions import Executions


class WorkflowService:
    """Gives access to `executions`, and lets callers wait for changes of workflows."""

    def __init__(self, store: Store, clock: Clock, executions: Executions) -> None:
        self._store = store
        self._clock = clock
        self.executions = executions
        #: Limits how many dry runs run at the same time.
        self.dry_run_slots = asyncio.Semaphore(MAX_DRY_RUNS)
        #: Bulk starts run one after the other, so that a poll waits for at most one of their transactions.
        self.bulk_start_slot = asyncio.Semaphore(1)
        self._watchers: dict[int, set[asyncio.Event]] = {}
        self._is_closed = False

    def after_commit(self, changed: Iterable[int]) -> None:
        """Wake the callers that wait for one of these workflows."""
        for workflow in changed if self._watchers else ():
            for event in self._watchers.get(workflow, ()):
                event.set()

    @property
    def is_watched(self) -> bool:
        """Whether any caller waits for a change of a workflow."""
        return bool(self._watchers)

    def close(self) -> None:
        """Wake all waiting callers, so that they return at once."""
        self._is_closed = True
        self.after_commit(list(self._watchers))

    async def wait_for(self, workflow: int, find_awaited: Callable[[Tx], set[int]], timeout_s: float) -> bool:
        """Wait until `find_awaited` returns no workflow.

        Args:
            workflow: The first workflow to watch for changes.
            find_awaited: Returns the workflows to wait for. Called again after each commit that changes one of them.
            timeout_s: The maximum time to wait.

        Returns:
            False if `timeout_s` passed first.
        """
        changed, watched = asyncio.Event(), {workflow}
        self._watchers.setdefault(workflow, set()).add(changed)
        ends = self._clock.monotonic() + timeout_s
        try:
            while wanted := await self._store.write(find_awaited):
                if new := wanted - watched:
                    watched |= new
                    for one in new:
                        self._watchers.setdefault(one, set()).add(changed)
                    continue  # a workflow may have changed before it was watched, so check again
                left_s = ends - self._clock.monotonic()
                if left_s <= 0 or self._is_closed or not await self._clock.wait(changed, left_s):
                    return False
                changed.clear()
        finally:
            for one in watched:
                self._watchers[one].discard(changed)
                if not self._watchers[one]:
                    del self._watchers[one]
        return True

    async def wait_for_scripts(self, workflow: int) -> bool:
        """Wait until no script of a workflow is queued or running. Return False after `WAIT_FOR_SCRIPTS_S`.

        Conductor evaluates scripts before it answers. The coordinator runs them in other processes, after the commit.
        """

        def find_awaited(tx: Tx) -> set[int]:
            return {workflow} if self.executions.waits_for_script(tx, workflow) else set()

        return await self.wait_for(workflow, find_awaited, WAIT_FOR_SCRIPTS_S)
