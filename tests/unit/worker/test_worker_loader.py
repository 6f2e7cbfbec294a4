"""Finding workers by importing packages, modules and directories, and errors of imports."""

import logging
import sys

import pytest

from conductor.client.worker import registry
from conductor.client.worker.worker_loader import (
    WorkerDiscoveryError,
    WorkerLoader,
    auto_discover_workers,
    scan_for_workers,
)


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write modules into a directory on the import path; they are forgotten after the test."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def write(path, text=""):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


def worker(name, *, domain=None):
    return (
        "from conductor.client.worker.worker_task import worker_task\n"
        f"@worker_task(task_definition_name={name!r}, domain={domain!r})\n"
        f"def {name}(x: int): return x\n"
    )


@pytest.fixture
def app(write):
    """The layout of the documentation."""
    write("my_app/__init__.py")
    write("my_app/workers/__init__.py", '"""Workers package - all worker modules auto-discovered"""')
    write("my_app/workers/order_tasks.py", worker("take_order"))
    write("my_app/workers/order/__init__.py")
    write("my_app/workers/order/process.py", worker("process"))
    write("my_app/workers/order/validate.py", worker("validate"))
    write("my_app/workers/payment/__init__.py", worker("in_init"))
    write("my_app/workers/payment/charge.py", worker("charge"))
    write("my_app/elsewhere.py", worker("elsewhere"))


def names(loader):
    return sorted(loader.get_worker_names())


EVERYTHING = ["charge", "in_init", "process", "take_order", "validate"]


def test_packages_are_scanned_to_the_bottom(app):
    loader = WorkerLoader()
    loader.scan_packages(["my_app.workers"])
    assert names(loader) == EVERYTHING
    assert loader.get_worker_count() == len(loader.get_workers()) == 5
    assert loader.failures == []
    assert "my_app.elsewhere" not in sys.modules


def test_a_scan_is_not_recursive_unless_asked(app):
    loader = WorkerLoader()
    loader.scan_packages(["my_app.workers"], recursive=False)
    # The modules and packages of the folder are imported, but not the modules inside the packages.
    assert names(loader) == ["in_init", "take_order"]


def test_one_module_is_loaded(app):
    loader = WorkerLoader()
    loader.scan_module("my_app.workers.order_tasks")
    assert names(loader) == ["take_order"]


def test_p30_the_documented_sequence_finds_every_worker_once(app, tmp_path):
    loader = WorkerLoader()
    loader.scan_packages(["my_app.workers"])
    loader.scan_module("my_app.workers.order_tasks")
    loader.scan_path(str(tmp_path / "my_app" / "workers"), package_prefix="my_app.workers")
    loader.scan_packages(["my_app.workers"], recursive=False)
    assert names(loader) == EVERYTHING
    assert len(registry.list_workers()) == 5


def test_p30_scanning_again_with_another_loader_registers_nothing_twice(app):
    first = scan_for_workers("my_app.workers")
    second = auto_discover_workers(packages=["my_app.workers", "my_app.workers"], print_summary=False)
    assert names(first) == names(second) == EVERYTHING
    assert (
        {id(w) for w in first.get_workers()}
        == {id(w) for w in second.get_workers()}
        == set(map(id, registry.list_workers()))
    )


def test_p30_a_directory_that_is_no_package_of_that_name(write, tmp_path):
    write("loose/a.py", worker("a"))
    write("loose/sub/b.py", worker("b"))
    write("loose/.hidden/c.py", worker("c"))
    write("loose/__main__.py", "raise RuntimeError('a program, not a module')")
    loader = WorkerLoader()
    loader.scan_path(tmp_path / "loose", package_prefix="given.name")
    loader.scan_path(tmp_path / "loose", package_prefix="another.name")
    assert names(loader) == ["a", "b"]
    assert "given.name.a" in sys.modules
    assert "another.name.a" not in sys.modules
    assert loader.failures == []


def test_a_directory_without_a_prefix_and_not_recursive(write, tmp_path):
    write("flat/only_here.py", worker("only_here"))
    write("flat/deep/not_here.py", worker("not_here"))
    loader = WorkerLoader()
    loader.scan_path(tmp_path / "flat", recursive=False)
    assert names(loader) == ["only_here"]


def test_a_directory_of_an_importable_package_is_imported_by_that_name(app, tmp_path):
    loader = WorkerLoader()
    loader.scan_path(tmp_path / "my_app" / "workers" / "order", package_prefix="my_app.workers.order")
    import my_app.workers.order.process as process

    assert names(loader) == ["process", "validate"]
    assert [w.execute_function for w in loader.get_workers()][0] is process.process


def test_only_workers_that_the_scanned_modules_define_are_found(app):
    scan_for_workers("my_app.elsewhere")
    loader = scan_for_workers("my_app.workers.order")
    assert names(loader) == ["process", "validate"]
    assert len(registry.list_workers()) == 3


@pytest.mark.parametrize(
    ("broken", "cause"),
    [
        ("import no_such_dependency", "ModuleNotFoundError: No module named 'no_such_dependency'"),
        ("def (", "SyntaxError: "),
        ("raise RuntimeError('at import')", "RuntimeError: at import"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_an_import_error_names_module_and_cause_and_what_was_found(app, write, caplog, broken, cause):
    write("my_app/workers/order/broken.py", broken)
    loader = WorkerLoader()
    loader.scan_packages(["my_app.workers"])
    assert names(loader) == EVERYTHING
    (failure,) = loader.failures
    assert failure.module == "my_app.workers.order.broken"
    (record,) = [r for r in caplog.records if r.levelno >= logging.ERROR]
    for said in ("my_app.workers.order.broken", cause, "other workers were found", "take_order"):
        assert said in record.getMessage()
    with pytest.raises(
        WorkerDiscoveryError, match=r"my_app\.workers\.order\.broken.*other workers were found.*process"
    ):
        loader.raise_for_failures()


def test_a_package_that_cannot_be_imported_does_not_hide_the_next_one(app, caplog):
    loader = scan_for_workers("my_app.wrokers", "my_app.workers")
    assert names(loader) == EVERYTHING
    assert [failure.module for failure in loader.failures] == ["my_app.wrokers"]
    assert "No module named 'my_app.wrokers'" in caplog.text


def test_a_broken_file_of_a_directory(write, tmp_path, caplog):
    write("loose/good.py", worker("good"))
    write("loose/bad.py", "raise ValueError('at import')")
    loader = WorkerLoader()
    loader.scan_path(tmp_path / "loose", package_prefix="loosely")
    assert names(loader) == ["good"]
    assert "Cannot import loosely.bad: ValueError: at import" in caplog.text
    assert "loosely.bad" not in sys.modules


def test_a_directory_that_is_not_there(tmp_path, caplog):
    loader = WorkerLoader()
    loader.scan_path(tmp_path / "nowhere")
    assert "not a directory" in caplog.text
    assert "other workers were found: none" in caplog.text


def test_a_package_name_as_a_plain_text(app):
    loader = WorkerLoader()
    loader.scan_packages("my_app.workers")
    assert names(loader) == EVERYTHING


def test_the_summary_lists_the_loaded_modules(app, write, capsys):
    write("my_app/workers/payment/refund.py", worker("refund", domain="eu"))
    write("my_app/workers/payment/broken.py", "1 / 0")
    auto_discover_workers(packages=["my_app.workers.payment"], print_summary=True)
    printed = capsys.readouterr().out
    assert printed.startswith("3 workers in 3 modules\n")
    assert "refund (domain eu): my_app.workers.payment.refund.refund" in printed
    assert "cannot import my_app.workers.payment.broken: ZeroDivisionError: division by zero" in printed


def test_no_summary_unless_asked_and_paths_are_scanned(write, tmp_path, capsys):
    write("loose/a.py", worker("a"))
    loader = auto_discover_workers(paths=[tmp_path / "loose"], print_summary=False)
    assert names(loader) == ["a"]
    assert capsys.readouterr().out == ""


def test_of_two_functions_for_one_task_type_the_last_one_is_found(write, caplog):
    write("two/__init__.py")
    write("two/a.py", worker("same"))
    write("two/b.py", worker("same"))
    write("two/c.py", "1 / 0")
    loader = scan_for_workers("two")
    assert "Cannot import two.c" in caplog.text
    (found,) = loader.get_workers()
    assert found.execute_function.__module__ == "two.b"
    assert registry.describe_duplicates() == [
        "task type 'same' has 2 workers: two.a.same and two.b.same; the last one runs. Rename one, or give it a domain"
    ]


def test_folders_without_init_are_found_as_python_finds_them(write):
    """The layout of the documentation as it is printed: only `workers` has an `__init__.py`."""
    write("shop/workers/__init__.py")
    write("shop/workers/order/process.py", worker("process"))
    write("shop/workers/order/late/validate.py", worker("validate"))
    write("shop/workers/payment/charge.py", worker("charge"))
    write("shop/workers/pictures/logo.txt", "no Python in here")
    write("shop/workers/.hidden/secret.py", worker("hidden"))
    write("shop/workers/not-a-name/script.py", worker("script"))
    loader = scan_for_workers("shop.workers")
    assert names(loader) == ["charge", "process", "validate"]
    assert loader.failures == []
    assert "shop.workers.pictures" not in sys.modules
    assert names(scan_for_workers("shop.workers", recursive=False)) == []


def test_a_scanned_package_may_itself_be_without_init(write):
    write("bare/order/process.py", worker("process"))
    assert names(scan_for_workers("bare")) == ["process"]
