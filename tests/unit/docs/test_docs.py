"""The documentation is correct: its code runs, its names exist, its links work, and its tables are current."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import re
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from conductor.cli.command_line import app
from conductor.client.configuration.connection_options import CONNECTION_OPTIONS
from conductor.client.configuration.near_misses import COORDINATOR_VARIABLES, METRICS_VARIABLES
from conductor.client.configuration.option import list_global_variables, list_worker_variables
from conductor.client.event.task_runner_events import EVENT_TYPES
from conductor.client.http.models import TaskDef
from conductor.client.telemetry.worker_metrics import CANONICAL, METRICS
from conductor.client.worker.worker_config import OPTIONS
from conductor.coordinator.server_metrics import METRICS as COORDINATOR_METRICS
from tests.unit.cli.program import CLI, DEADLINE_S, Program, url_in
from tests.unit.docs.pages import (
    PAGES,
    ROOT,
    TYPED_COPIES,
    Block,
    anchors,
    blocks,
    code_words,
    links,
    name_of,
    program,
    prose_of,
    typed_programs,
)

PYTHON = blocks("python")
each_page = pytest.mark.parametrize("page", PAGES, ids=name_of)
#: Commands by their words, and the first words of those that have two.
TOP: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
GROUPS = {name: group.commands for name, group in TOP.items() if hasattr(group, "commands")}
COMMANDS: dict[str, Any] = {name: command for name, command in TOP.items() if name not in GROUPS} | {
    f"{group} {name}": command for group, inner in GROUPS.items() for name, command in inner.items()
}


def shell_text() -> Iterator[tuple[Block, str]]:
    for block in blocks("sh", "yaml", "ini"):
        for line in block.code.splitlines():
            yield block, line.split("#")[0]


# -- code ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_compiles_and_imports_what_exists(block: Block) -> None:
    tree = ast.parse(block.code)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "conductor":
            if str(node.module).startswith("conductor.agents."):  # the frameworks may not be installed
                spec = importlib.util.find_spec(str(node.module))
                assert spec is not None and spec.origin is not None
                source = ast.parse(Path(spec.origin).read_text())
                assert {name.name for name in node.names} <= {getattr(one, "name", None) for one in source.body}
                continue
            module = importlib.import_module(str(node.module))
            assert [name.name for name in node.names if not hasattr(module, name.name)] == []


@pytest.mark.parametrize("block", [block for block in PYTHON if block.runs], ids=str)
def test_whole_programs_run(block: Block, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", block.code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_the_type_checked_copies_are_current() -> None:
    """`make check` runs mypy on the copies, so the programs on these pages pass `mypy --strict`."""
    copies = {path.name: path.read_text() for path in TYPED_COPIES.glob("*.py")}
    assert copies == typed_programs(), "run: python -m tests.unit.docs.pages"
    assert len(copies) >= 7


@pytest.mark.timeout(240)
def test_the_quickstart_works_as_printed(tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text(program("docs/quickstart.md", "orders.py"))

    def run(*command: str, **env: str) -> str:
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run(sys.executable, "orders.py").strip() == "{'receipt': 'R-3998'}"
    with Program([*CLI, "serve", "--port", "0", "--database", "first.db"], tmp_path) as server:
        env = {"CONDUCTOR_SERVER_URL": url_in(server.line_with("Coordinator at"))}
        run(*CLI, "workflow", "register", "orders.py", **env)
        with Program([*CLI, "run", "orders"], tmp_path, env) as running:
            order = '{"order": {"item": "lamp", "pieces": 2}}'
            assert "COMPLETED" in run(*CLI, "workflow", "start", "buy", "--input", order, "--wait", **env)
            assert "buy" in run(*CLI, "workflow", "list", **env)
            running.send(signal.SIGTERM)
            assert running.wait() == 0


@pytest.mark.parametrize(
    ("page", "files"),
    [
        ("docs/howto/testing-workflows.md", ["test_orders.py"]),
        ("docs/howto/testing-workflows.md", ["test_billing.py"]),
        ("docs/howto/durable-steps.md", ["test_onboarding.py"]),
        ("docs/howto/human-approval.md", ["test_expenses.py"]),
        ("docs/tutorial.md", ["reminders.py", "test_reminders.py"]),
    ],
)
def test_tests_of_workflows_pass_as_printed(page: str, files: list[str], tmp_path: Path) -> None:
    for name in files:
        (tmp_path / name).write_text(program(page, name))
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", files[-1]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert " passed" in ran.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_tutorial_works_as_printed(tmp_path: Path) -> None:
    for name in ("reminders.py", "remind.py"):
        (tmp_path / name).write_text(program("docs/tutorial.md", name))
    with Program([*CLI, "serve", "--port", "0", "--database", "shop.db"], tmp_path) as server:
        env = {**os.environ, "CONDUCTOR_SERVER_URL": url_in(server.line_with("Coordinator at"))}

        def ran(*command: str) -> str:
            done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=DEADLINE_S)
            assert done.returncode == 0, done.stderr
            return done.stdout.strip()

        assert ran(sys.executable, "reminders.py").endswith("{'sent': True}")
        ran(*CLI, "workflow", "register", "reminders.py")
        given = '{"name": "grace", "text": "drink some water"}'
        ran(*CLI, "schedule", "add", "every-minute", "reminder", "0 * * * * *", "--input", given)
        assert "every-minute" in ran(*CLI, "schedule", "list")
        with Program([*CLI, "run", "reminders"], tmp_path, env) as workers:
            assert ran(sys.executable, "remind.py", "ada") == "COMPLETED {'sent': True}"
            assert ran(sys.executable, "remind.py", "linus").startswith("FAILED")
            workers.line_with("to grace@example.com: drink some water")  # at the next full minute
            workers.send(signal.SIGTERM)
            assert workers.wait() == 0


# -- names --------------------------------------------------------------------------------------------------------


def known_variables() -> set[str]:
    workers = ("process_order", "greet")
    per_worker = {name for row in OPTIONS.values() for worker in workers for name in list_worker_variables(worker, row)}
    for_all = {name for row in OPTIONS.values() for name in list_global_variables(row)}
    of_connections = {row.variable for row in CONNECTION_OPTIONS.values()}
    return per_worker | for_all | of_connections | COORDINATOR_VARIABLES | METRICS_VARIABLES


@each_page
def test_environment_variables_exist(page: Path) -> None:
    named = set(re.findall(r"\bCONDUCTOR_[A-Z0-9_]*[A-Z0-9]\b", page.read_text()))
    families = {name for name in named if re.search(rf"{name}_?…", page.read_text())}
    families |= {name for name in named if name.startswith(("CONDUCTOR_SECRET_", "CONDUCTOR_ENV_"))}
    assert named - families - known_variables() == set()


def test_commands_and_their_options_exist() -> None:
    found = 0
    for block, line in shell_text():
        words = line.replace('", "', " ").replace('["', " ").replace('"]', " ").split()
        programs = [index for index, word in enumerate(words) if word.endswith("conductor-worker")]
        for index in programs:
            if words[index - 1 : index] == ["install"] or index + 1 >= len(words):
                continue
            name, rest = words[index + 1], words[index + 2 :]
            if name in GROUPS and rest:
                name, rest = f"{name} {rest[0]}", rest[1:]
            assert name in COMMANDS, f"{block}: {line}"
            flags = {flag for param in COMMANDS[name].params for flag in [*param.opts, *param.secondary_opts]}
            assert [word for word in rest if word.startswith("--") and word not in flags] == [], f"{block}: {line}"
            found += 1
    assert found > 10


@cache
def known_flags() -> set[str]:
    flags = {flag for command in COMMANDS.values() for p in command.params for flag in [*p.opts, *p.secondary_opts]}
    return flags | {"--env", "--help", *(flag for param in get_command(app).params for flag in param.opts)}


@each_page
def test_flags_in_the_prose_exist(page: Path) -> None:
    named = {word.split()[0] for word in code_words(page) if word.startswith("--") and word != "---"}
    assert named - known_flags() == set()


@each_page
def test_metrics_exist(page: Path) -> None:
    declared = {m.name for m in (*METRICS, *COORDINATOR_METRICS, *(one.metric for one in CANONICAL))}
    known = declared | {f"{name}_{end}" for name in declared for end in ("sum", "count", "bucket")}
    named = set(
        re.findall(
            r"\b(?:task|worker|http|coordinator)_[a-z_]+_(?:total|seconds|bytes|count|sum|bucket|slots|in_use|tasks)\b",
            page.read_text(),
        )
    )
    options = {*OPTIONS, "http_port"}
    assert named - known - options == set()


@each_page
def test_events_exist(page: Path) -> None:
    known = {event.__name__ for event in EVENT_TYPES}
    pattern = r"(?:Poll|TaskExecution|TaskUpdate|TaskLease|Worker)(?:Start|Complet|Fail|Retr|Extend|Lost|Stopp)\w*"
    assert {word for word in code_words(page) if re.fullmatch(pattern, word)} - known == set()


@each_page
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shell = "\n".join(block.code for block in blocks("sh") if block.page == page)
    named = re.findall(r"`make ([a-z-]+)`", prose_of(page)) + re.findall(r"^make ([a-z-]+)", shell, re.MULTILINE)
    assert set(named) - targets == set()


@each_page
def test_options_in_the_prose_exist(page: Path) -> None:
    """A word like `poll_interval_millis=…`, or one that only an option could be."""
    looks_like_one = re.compile(r"(?:poll|update|journal|shutdown|lease_extend|idle_poll|verify|strict|overwrite)_\w+")
    named = {word.split("=")[0] for word in code_words(page) if looks_like_one.fullmatch(word.split("=")[0])}
    spellings = {spelling for row in OPTIONS.values() for spelling in row.spellings}
    other_names = {"update_interval", "poll_count", "update_workflow_variables", *TaskDef.__struct_fields__}
    assert named - spellings - other_names == set()


# -- links and tables ---------------------------------------------------------------------------------------------


@each_page
def test_pages_have_no_merge_conflicts(page: Path) -> None:
    assert re.findall(r"^(?:<{7} |={7}$|>{7} ).*", page.read_text(), re.MULTILINE) == []


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or target.suffix != ".md" or anchor in anchors(target), link


def test_every_page_is_two_clicks_from_the_overview() -> None:
    reached = {ROOT / "docs" / "index.md"}
    for _ in range(2):
        reached |= {
            (page.parent / link.partition("#")[0]).resolve()
            for page in reached
            if page.suffix == ".md" and page.is_file()
            for link in links(page)
            if "://" not in link
        }
    assert {page for page in PAGES if page.is_relative_to(ROOT / "docs")} - reached == set()


def test_every_pitfall_is_listed_with_the_tests_that_hold_it() -> None:
    rows = re.findall(r"^\| (P\d\d) \| .+ \| (.+) \|$", (ROOT / "docs" / "pitfalls.md").read_text(), re.MULTILINE)
    listed = {(number, file) for number, files in rows for file in re.findall(r"`([^`]+)`", files)}
    here = Path(__file__)
    held = {
        (number.upper(), name_of(file))
        for file in (ROOT / "tests").rglob("test_*.py")
        if file != here
        for number in re.findall(r"(?:\b|_)([Pp]\d\d)(?:\b|_)", file.read_text())
    }
    assert listed - held == set(), "listed, but these files do not name the number"
    assert {number for number, _ in held} - {number for number, _ in listed} == set(), "named, but not listed"


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "reference").glob("*.md")), ids=lambda page: page.stem)
def test_generated_tables_are_current(page: Path) -> None:
    fill = runpy.run_path(str(ROOT / "docs" / "generate.py"))["fill_generated_parts"]
    assert fill(page.read_text()) == page.read_text(), "run: python docs/generate.py"


#: Words in code of the design pages that are not modules of this package.
NOT_MODULES = {
    "def",
    "thread_count",
    "msgspec",
    "pyreqwest",
    "rich",
    "typer",
    "uvloop",
    "httptools",
    "jq",
    "tzdata",
    "zoneinfo",
}


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "design").glob("*.md")), ids=lambda page: page.stem)
def test_modules_of_the_design_pages_exist(page: Path) -> None:
    sources = list((ROOT / "src" / "conductor").rglob("*.py"))
    modules = {path.stem for path in sources} | {path.parent.name for path in sources}
    named = {word.split("/")[-1] for word in code_words(page) if re.fullmatch(r"[a-z_]+(/[a-z_]+)*", word)}
    assert len(named) > 10
    assert named - modules - NOT_MODULES == set()
