"""Finds workers by importing packages: the decorator registers a worker when its module is imported."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import logging
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from conductor.client.worker import registry
from conductor.client.worker.worker import Worker

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ImportFailure:
    """A module that could not be imported, and the error."""

    module: str
    cause: BaseException

    def __str__(self) -> str:
        return f"{self.module}: {type(self.cause).__name__}: {self.cause}"


class WorkerDiscoveryError(ImportError):
    """Some modules could not be imported. The message names them, the errors, and the workers that were found."""

    def __init__(self, failures: Sequence[ImportFailure], found: Sequence[str]) -> None:
        causes = "; ".join(map(str, failures))
        super().__init__(f"Cannot import {causes} (other workers were found: {', '.join(found) or 'none'})")
        self.failures = tuple(failures)


class WorkerLoader:
    """Discovers workers in packages, modules and directories.

    A module that cannot be imported does not end a scan: the scan logs the failure, adds it to `failures` and
    continues. `raise_for_failures()` raises an exception for them.

    Example:
        loader = WorkerLoader()
        loader.scan_packages(["my_app.workers"])
        TaskHandler(configuration=config)  # runs the workers that were found
    """

    def __init__(self) -> None:
        self.failures: list[ImportFailure] = []
        self._modules: dict[str, ModuleType] = {}

    def scan_packages(self, package_names: Iterable[str], recursive: bool = True) -> None:
        """Import packages and, with `recursive`, all modules inside them."""
        names = [package_names] if isinstance(package_names, str) else package_names
        with self._log_failures():
            for name in names:
                package = self._import(name)
                if package is not None and hasattr(package, "__path__"):
                    self._scan_inside(package, recursive)

    def scan_module(self, module_name: str) -> None:
        """Import a module."""
        with self._log_failures():
            self._import(module_name)

    def scan_path(self, path: str | Path, package_prefix: str = "", recursive: bool = True) -> None:
        """Import all Python files of a directory.

        A file that is on the import path under its module name is imported from there, so that no file is imported
        under two names.

        Args:
            path: The directory.
            package_prefix: The package that the modules belong to.
            recursive: Include directories inside the directory.
        """
        root = Path(path)
        with self._log_failures():
            if not root.is_dir():
                self._fail(str(path), NotADirectoryError("not a directory"))
            for file in sorted(root.rglob("*.py") if recursive else root.glob("*.py")):
                name = _module_name(file.relative_to(root), package_prefix)
                if name and not _is_hidden(file.relative_to(root)):
                    self._import_file(name, file)

    def get_workers(self) -> list[Worker]:
        """Return the decorated workers of the scanned modules."""
        return [worker for worker in registry.list_workers() if _find_module(worker) in self._modules]

    def get_worker_count(self) -> int:
        """Return the number of workers that were found."""
        return len(self.get_workers())

    def get_worker_names(self) -> list[str]:
        """Return the task types of the workers that were found."""
        return [worker.get_task_definition_name() for worker in self.get_workers()]

    def print_summary(self) -> None:
        """Print the workers that were found and the modules that could not be imported."""
        sys.stdout.write(self.summary() + "\n")

    def summary(self) -> str:
        """Return the text of `print_summary`."""
        workers = self.get_workers()
        lines = [f"{len(workers)} worker{'' if len(workers) == 1 else 's'} in {len(self._modules)} modules"]
        lines += [f"  {_describe(worker)}" for worker in workers]
        lines += [f"  cannot import {failure}" for failure in self.failures]
        return "\n".join(lines)

    def raise_for_failures(self) -> None:
        """Raise `WorkerDiscoveryError` if a module could not be imported."""
        if self.failures:
            raise WorkerDiscoveryError(self.failures, self.get_worker_names())

    def _scan_inside(self, package: ModuleType, recursive: bool) -> None:
        for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            if found.name.endswith(".__main__"):
                continue  # importing `__main__` would run the program
            self._scan(found.name, recursive and found.ispkg)
        if recursive:
            for folder in _list_namespace_packages(package.__path__):
                self._scan(f"{package.__name__}.{folder}", recursive)

    def _scan(self, name: str, inside: bool) -> None:
        module = self._import(name)
        if inside and module is not None:
            self._scan_inside(module, recursive=True)

    def _import(self, name: str) -> ModuleType | None:
        if name in self._modules:
            return self._modules[name]
        try:
            self._modules[name] = importlib.import_module(name)
        except (Exception, SystemExit) as error:  # the code of the user may raise anything
            self._fail(name, error)
        return self._modules.get(name)

    def _import_file(self, name: str, file: Path) -> None:
        known = _find_loaded(file)
        if known is not None:
            self._modules[known.__name__] = known
            return
        if _is_importable_from(name, file):
            self._import(name)
            return
        spec = importlib.util.spec_from_file_location(name, file)
        if spec is None or spec.loader is None:
            return
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            self._fail(name, error)
        else:
            self._modules[name] = module

    def _fail(self, name: str, cause: BaseException) -> None:
        if all(known.module != name for known in self.failures):
            self.failures.append(ImportFailure(name, cause))

    @contextmanager
    def _log_failures(self) -> Iterator[None]:
        """Log the failures of the block after its end, so that the message can name all workers that were found."""
        before = len(self.failures)
        yield
        for failure in self.failures[before:]:
            logger.error("%s", WorkerDiscoveryError([failure], self.get_worker_names()))
            logger.debug("Traceback of %s", failure.module, exc_info=failure.cause)


def _list_namespace_packages(paths: Iterable[str]) -> list[str]:
    """Return the namespace packages in these directories: packages without an `__init__.py`."""
    folders = [folder for path in paths if Path(path).is_dir() for folder in Path(path).iterdir() if folder.is_dir()]
    bare = [f for f in folders if f.name.isidentifier() and not (f / "__init__.py").exists() and any(f.rglob("*.py"))]
    return sorted({folder.name for folder in bare} - {"__pycache__"})


def _module_name(file: Path, prefix: str) -> str:
    parts = [*prefix.split("."), *file.with_suffix("").parts] if prefix else list(file.with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return "" if parts and parts[-1] == "__main__" else ".".join(parts)


def _is_hidden(file: Path) -> bool:
    return any(part.startswith(".") or part == "__pycache__" for part in file.parts)


def _find_loaded(file: Path) -> ModuleType | None:
    """Return the module that was imported from this file, under any name."""
    resolved = file.resolve()
    for module in list(sys.modules.values()):
        origin = getattr(module, "__file__", None)
        if origin and Path(origin).name == file.name and Path(origin).resolve() == resolved:
            return module
    return None


def _is_importable_from(name: str, file: Path) -> bool:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return False
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() == file.resolve()


def _find_module(worker: Worker) -> str:
    function = worker.execute_function
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__module__", None) or ""


def _describe(worker: Worker) -> str:
    domain = f" (domain {worker.domain})" if worker.domain else ""
    function = getattr(worker.execute_function, "__qualname__", repr(worker.execute_function))
    return f"{worker.get_task_definition_name()}{domain}: {_find_module(worker)}.{function}"


def scan_for_workers(*package_names: str, recursive: bool = True) -> WorkerLoader:
    """Import packages to find workers. Return the loader, which lists them."""
    loader = WorkerLoader()
    loader.scan_packages(package_names, recursive=recursive)
    return loader


def auto_discover_workers(
    packages: Iterable[str] | None = None,
    paths: Iterable[str | Path] | None = None,
    print_summary: bool = True,
) -> WorkerLoader:
    """Import packages and directories to find workers.

    Args:
        packages: The packages to import.
        paths: The directories to import.
        print_summary: Print the workers that were found.

    Returns:
        The loader.
    """
    loader = WorkerLoader()
    loader.scan_packages(packages or ())
    for path in paths or ():
        loader.scan_path(path)
    if print_summary:
        loader.print_summary()
    return loader
