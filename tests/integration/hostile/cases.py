"""The table of all cases: a case is a function of `texts`, `shapes`, `schemas`, `flows` or `work`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType

from . import flows, schemas, shapes, texts, work
from .world import World

Case = Callable[[World], None]


def _cases_of(module: ModuleType) -> list[Case]:
    """The functions that are written there; one that begins with an underscore helps others."""
    found = inspect.getmembers(module, inspect.isfunction)
    return [function for name, function in found if function.__module__ == module.__name__ and name[0] != "_"]


CASES = [case for module in (texts, shapes, schemas, flows, work) for case in _cases_of(module)]
#: The worst of each kind: these run in the fast suite.
IN_THE_FAST_SUITE: tuple[Case, ...] = (
    texts.a_duration_of_spaces_behind_a_wait,
    texts.a_query_of_spaces,
    texts.a_condition_of_comments,
    texts.many_elements_fifty_times,
    schemas.a_chain_of_references_behind_a_wait,
    flows.a_loop_without_a_wait_and_a_variable_of_a_megabyte,
)
