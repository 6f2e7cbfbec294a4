"""The syntax check of scripts in a `with workflow:` block, with the JavaScript engine of the coordinator."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def find_syntax_error(script: str) -> str | None:
    """Return why the engine cannot parse a script; None if it can, or if the `server` extra is not installed.

    The script does not run, because an engine parses the whole program before it runs the first statement.
    """
    if "${" in script:
        return None  # the text is complete only when the workflow runs
    try:
        engine: Any = import_module("_quickjs")
    except ImportError:
        return None
    try:
        engine.Context().eval(f"throw 0; {script}")
    except engine.JSException as error:
        reason = str(error).partition("\n")[0]
        return reason if reason.startswith("SyntaxError") else None
    return None
