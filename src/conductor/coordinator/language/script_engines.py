"""Which script engines are installed. Only the script processes load them."""

from __future__ import annotations

import functools
import importlib.util
from typing import Literal

Language = Literal["javascript", "jq"]

#: For each language, the extension module of its engine, and the package that contains the module.
_MODULES: dict[str, tuple[str, str]] = {"javascript": ("_quickjs", "quickjs-ng"), "jq": ("jq", "jq")}


@functools.cache
def engine_files() -> dict[str, str]:
    """Return the files of the installed extension modules, by module name."""
    found = {name: importlib.util.find_spec(name) for name, _ in _MODULES.values()}
    return {name: spec.origin for name, spec in found.items() if spec is not None and spec.origin}


def missing_engine(language: Language) -> str | None:
    """Return the rest of a sentence that says which package to install; None if the engine is installed."""
    module, package = _MODULES[language]
    if module in engine_files():
        return None
    return f"needs {package}, which is not installed: pip install 'conductor-worker[server]'"
