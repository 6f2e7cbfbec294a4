"""Workflow definitions in Python.

The classes have the same import paths as in conductor-python. The functions of this package are a shorter notation, in
which steps are calls, and branches, loops and forks are blocks. See `conductor.client.workflow.authoring`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conductor.common.lazy_names import define_lazy_names

if TYPE_CHECKING:
    from conductor.client.workflow.authoring import add as add
    from conductor.client.workflow.authoring import collect as collect
    from conductor.client.workflow.authoring import each as each
    from conductor.client.workflow.authoring import fork as fork
    from conductor.client.workflow.authoring import loop as loop
    from conductor.client.workflow.authoring import set_variables as set_variables
    from conductor.client.workflow.authoring import step as step
    from conductor.client.workflow.authoring import sub_workflow as sub_workflow
    from conductor.client.workflow.authoring import switch as switch
    from conductor.client.workflow.authoring import terminate as terminate
    from conductor.client.workflow.authoring import wait as wait
    from conductor.client.workflow.authoring import workflow as workflow
    from conductor.client.workflow.authoring_errors import WorkflowError as WorkflowError
    from conductor.client.workflow.conductor_workflow import ConductorWorkflow as ConductorWorkflow

#: The module that defines each name.
_HOMES = {
    "ConductorWorkflow": "conductor_workflow",
    "WorkflowError": "authoring_errors",
    "add": "authoring",
    "collect": "authoring",
    "each": "authoring",
    "fork": "authoring",
    "loop": "authoring",
    "set_variables": "authoring",
    "step": "authoring",
    "sub_workflow": "authoring",
    "switch": "authoring",
    "terminate": "authoring",
    "wait": "authoring",
    "workflow": "authoring",
}
__all__ = list(_HOMES)
__getattr__, __dir__ = define_lazy_names(__name__, _HOMES)
