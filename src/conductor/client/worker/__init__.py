"""Workers: functions or classes that serve a task type, their options and their signatures.

The modules in reading order:

- `worker_task`: the decorator that makes a worker of a function.
- `function_checks`: the mistakes in a function that the decorator reports.
- `task_def_options`: makes the task definition from the arguments of the decorator.
- `worker`: the class `Worker`, and the options that code sets.
- `worker_interface`: the base class of all workers.
- `worker_config`: the table of options, and their values for a worker.
- `registry`: the decorated workers of this process, and its lifespans.
- `worker_choice`: which workers a handler runs.
- `worker_loader`: finds workers by importing packages and folders.
- `signature`: converts the input of a task to the arguments of a function, and writes the schemas.
- `parameters`: finds the parameters of a function behind wrappers and partials.
- `dependencies`: parameters that a provider fills instead of the input.
- `lifespan`: the decorator of functions that set up a process before its first poll.
- `resources`: creates the values of dependencies and lifespans, per process or per task.
- `conversion`: the package that converts JSON values to annotated types.
- `output`: the task output for a return value.
- `outcome`: the result that is reported for a return value or an exception.
- `exception`: exceptions that a function may raise.
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
