"""The context of a running task. Each name is imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conductor.common.lazy_names import define_lazy_names

if TYPE_CHECKING:
    from conductor.client.context.task_context import TaskContext as TaskContext
    from conductor.client.context.task_context import TaskInProgress as TaskInProgress
    from conductor.client.context.task_context import get_task_context as get_task_context

_HOMES = dict.fromkeys(("TaskContext", "TaskInProgress", "get_task_context"), "task_context")
__all__ = list(_HOMES)
__getattr__, __dir__ = define_lazy_names(__name__, _HOMES)
