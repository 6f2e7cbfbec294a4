"""Whether the engines that run scripts are installed. They are loaded by the process that runs them, never here."""

from __future__ import annotations

import functools
import importlib.util
from typing import Literal

Language = Literal["javascript", "jq"]

#: Language → (the extension module that runs it, the package that brings it).
_MODULES: dict[str, tuple[str, str]] = {"javascript": ("_quickjs", "quickjs-ng"), "jq": ("jq", "jq")}


@functools.cache
def engine_files() -> dict[str, str]:
    """The extension modules that are there, by name, and the files they are in."""
    found = {name: importlib.util.find_spec(name) for name, _ in _MODULES.values()}
    return {name: spec.origin for name, spec in found.items() if spec is not None and spec.origin}


def missing_engine(language: Language) -> str | None:
    """What to do before scripts of a language can run; None if they can."""
    module, package = _MODULES[language]
    if module in engine_files():
        return None
    return f"needs {package}, which is not installed: pip install 'conductor-worker[server]'"
