"""Finds the decorated workers of the modules that a command names."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from conductor.cli.console import silence_logger
from conductor.cli.support import UserError
from conductor.client.worker import registry
from conductor.client.worker.worker import Worker
from conductor.client.worker.worker_config import find_unknown_variables, resolve_worker_config
from conductor.client.worker.worker_loader import ImportFailure, WorkerLoader

Traceback = Annotated[bool, typer.Option("--traceback", help="Print the traceback of a failed import.")]
Modules = Annotated[
    list[str],
    typer.Argument(
        metavar="MODULE",
        help="Modules or packages with decorated workers, or Python files.",
        show_default=False,
    ),
]


def find_workers(modules: Sequence[str], *, show_traceback: bool = False) -> list[Worker]:
    """Import the modules, from the current directory first, and return all decorated workers."""
    add_import_path(Path.cwd())
    import_modules([resolve_module(module) for module in modules], show_traceback=show_traceback)
    found = registry.list_workers()
    contests = registry.describe_duplicates()
    if contests and resolve_worker_config("").strict_registry:
        raise UserError(". ".join(contests))
    for sentence in contests:
        typer.echo(f"warning: {sentence}", err=True)
    if not found:
        raise UserError(f"there are no workers in {', '.join(modules)}: decorate functions with @worker_task")
    return found


def import_modules(names: Sequence[str], *, show_traceback: bool = False) -> list[ModuleType]:
    """Import modules, and the submodules of packages. Return all of them.

    Raises:
        UserError: A module cannot be imported.
    """
    loader = WorkerLoader()
    with silence_logger("conductor.client.worker.worker_loader"):
        loader.scan_packages(names)
    if loader.failures:
        if show_traceback:
            for failure in loader.failures:
                traceback.print_exception(failure.cause)
        raise UserError("cannot import " + "; ".join(_describe_each(loader.failures)))
    return [module for name, module in list(sys.modules.items()) if is_inside(name, names)]


def is_inside(name: str, modules: Sequence[str]) -> bool:
    """Return whether a module name is one of `modules`, or names a submodule of one of them."""
    return any(name == module or name.startswith(f"{module}.") for module in modules)


def add_import_path(directory: Path) -> None:
    """Put a directory first in `sys.path`. `python -m` does so for the current directory, a console script does not."""
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))


def resolve_module(argument: str) -> str:
    """Return the module name for an argument, which may be a module name or a Python file."""
    file = Path(argument)
    if argument.endswith(".py") and file.is_file():
        return _module_of(file.resolve())
    package, _, module = argument.partition(".")
    if module == "py" and package.isidentifier() and find_spec(package) is None:
        raise UserError(f"there is no file {argument} in {Path.cwd()}")
    if all(part.isidentifier() for part in argument.split(".")):
        return argument
    raise UserError(f"{argument!r} is neither the name of a module, as in an import, nor an existing Python file")


def _module_of(file: Path) -> str:
    """Return the module name of a file: its path below the current directory or, if it is elsewhere, its file name."""
    inside = file.is_relative_to(Path.cwd())
    home = Path.cwd() if inside else file.parent
    add_import_path(home)
    parts = file.relative_to(home).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts
    if not all(part.isidentifier() for part in parts):
        raise UserError(f"{file} cannot be imported: {'.'.join(parts)!r} is not the name of a module")
    return ".".join(parts)


def warn_about_unknown_variables(workers: Sequence[Worker]) -> None:
    """Print a warning for each misspelt variable of a worker option."""
    for line in list_unknown_variables(workers):
        typer.echo(f"warning: {line}", err=True)


def list_unknown_variables(workers: Sequence[Worker]) -> list[str]:
    """Return warnings about environment variables that look like misspelt options of workers."""
    return list(find_unknown_variables(os.environ, [worker.get_task_definition_name() for worker in workers]))


def _describe_each(failures: Sequence[ImportFailure]) -> list[str]:
    """Return one text per error.

    An error in one file is listed once, although every module that imports the file fails.
    """
    by_error: dict[tuple[type, str], list[ImportFailure]] = {}
    for failure in failures:
        by_error.setdefault((type(failure.cause), str(failure.cause)), []).append(failure)
    texts = []
    for alike in by_error.values():
        others = f" (the same error in {', '.join(one.module for one in alike[1:])})" if len(alike) > 1 else ""
        texts.append(_describe(alike[0]) + others)
    return texts


def _describe(failure: ImportFailure) -> str:
    if isinstance(failure.cause, ModuleNotFoundError) and failure.cause.name == failure.module:
        return f"{failure.module}: there is no such module in {Path.cwd()} or among the installed packages"
    return f"{failure}{_describe_location(failure.cause)}"


def _describe_location(cause: BaseException) -> str:
    """Return the innermost line of the traceback that is in the user's own code and not in an installed package."""
    if isinstance(cause, SyntaxError):
        return ""  # the message of a SyntaxError already contains the line
    frames = [frame for frame in traceback.extract_tb(cause.__traceback__) if not _is_ours(frame.filename)]
    own = [frame for frame in frames if not _is_installed(frame.filename)] or frames
    return f" ({own[-1].filename}, line {own[-1].lineno}; --traceback shows the whole traceback)" if own else ""


def _is_ours(filename: str) -> bool:
    return filename.startswith(("<frozen", str(Path(__file__).parents[1]))) or "importlib" in filename


def _is_installed(filename: str) -> bool:
    return filename.startswith(
        tuple(sysconfig.get_paths()[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib"))
    )
