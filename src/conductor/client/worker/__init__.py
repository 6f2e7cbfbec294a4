"""What a worker is: a function or class, the task type it serves, its options, and one reading of its signature.

In reading order:

- `worker_task`: the decorator that makes a worker of a function.
- `worker`: the worker itself, and the options that its code gives.
- `worker_interface`: what every worker is, and the base of those written as classes.
- `worker_config`: the table of options, and the value that each one has for a given worker.
- `registry`: the decorated workers of this process, and its lifespans.
- `worker_choice`: which workers a handler runs.
- `worker_loader`: finds workers by importing packages and folders.
- `signature`: what the function takes and returns, read once: its arguments from a task's input, and its schemas.
- `parameters`: what a call of something may fill in, seen through wrappers.
- `dependencies`: parameters that are no input: who provides them, and what that needs in turn.
- `lifespan`: the decorator of what a process sets up before its first poll, and tears down at the end.
- `resources`: both at work: what is made once per process, what for each task, and how functions get it.
- `conversion`: the package that knows what annotations mean in JSON.
- `output`: what was returned, as it travels.
- `outcome`: how a task ended, as the result that is reported.
- `exception`: what a function may raise to say more than that it failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conductor.common.lazy_names import define_lazy_names

if TYPE_CHECKING:
    from conductor.client.worker.dependencies import DependencyError as DependencyError
    from conductor.client.worker.dependencies import Depends as Depends
    from conductor.client.worker.dependencies import override_dependency as override_dependency
    from conductor.client.worker.lifespan import worker_lifespan as worker_lifespan
    from conductor.client.worker.resources import StartError as StartError

_HOMES = {
    "DependencyError": "dependencies",
    "Depends": "dependencies",
    "StartError": "resources",
    "override_dependency": "dependencies",
    "worker_lifespan": "lifespan",
}
__all__ = list(_HOMES)
__getattr__, __dir__ = define_lazy_names(__name__, _HOMES)
