"""The documentation holds: its code runs, what it names exists, its links lead somewhere, its tables are current."""

from __future__ import annotations

import ast
import importlib
import os
import re
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.program import CLI, DEADLINE_S, Program, url_in
from typer.main import get_command

from conductor.cli.app import app
from conductor.client.configuration.options import OPTIONS as CONNECTION
from conductor.client.event.task_runner_events import EVENT_TYPES
from conductor.client.telemetry.metrics import METRICS
from conductor.client.worker.variables import global_variables, worker_variables
from conductor.client.worker.worker_config import OPTIONS
from docs.pages import PAGES, ROOT, Block, anchors, blocks, code_words, links, name_of, program, prose_of

PYTHON = blocks("python")
each_page = pytest.mark.parametrize("page", PAGES, ids=name_of)
COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]


def shell_text() -> Iterator[tuple[Block, str]]:
    for block in blocks("sh", "yaml", "ini"):
        for line in block.code.splitlines():
            yield block, line.split("#")[0]


# -- code ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_compiles_and_imports_what_exists(block: Block):
    tree = ast.parse(block.code)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "conductor":
            module = importlib.import_module(str(node.module))
            assert [name.name for name in node.names if not hasattr(module, name.name)] == []


@pytest.mark.parametrize("block", [block for block in PYTHON if block.runs], ids=str)
def test_whole_programs_run(block: Block, tmp_path: Path):
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", block.code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    ("page", "workers", "client", "printed"),
    [
        ("README.md", "greetings", "hello", "{'greeting': 'Hello Ada'}"),
        ("docs/quickstart.md", "orders", "buy", "COMPLETED {'receipt': 'R-3998'}"),
    ],
)
@pytest.mark.timeout(240)
def test_the_first_steps_work_as_printed(page, workers, client, printed, tmp_path: Path):
    for name in (workers, client):
        (tmp_path / f"{name}.py").write_text(program(page, f"{name}.py"))
    assert printed in program(page, f"{client}.py")
    with Program([*CLI, "serve", "--port", "0", "--database", "first.db"], tmp_path) as server:
        env = {"CONDUCTOR_SERVER_URL": url_in(server.line_with("Coordinator at"))}
        with Program([*CLI, "run", workers], tmp_path, env) as running:
            done = subprocess.run(
                [sys.executable, f"{client}.py"],
                cwd=tmp_path,
                env={**os.environ, **env},
                capture_output=True,
                text=True,
                timeout=DEADLINE_S,
                check=False,
            )
            assert (done.returncode, done.stdout.strip()) == (0, printed), done.stderr
            running.send(signal.SIGTERM)
            assert running.wait() == 0


# -- names --------------------------------------------------------------------------------------------------------


def known_variables() -> set[str]:
    workers = ("process_order", "greet")
    per_worker = {name for row in OPTIONS.values() for worker in workers for name in worker_variables(worker, row)}
    for_all = {name for row in OPTIONS.values() for name in global_variables(row)}
    return per_worker | for_all | {row.env for row in CONNECTION}


@each_page
def test_environment_variables_exist(page: Path):
    named = set(re.findall(r"\bCONDUCTOR_[A-Z0-9_]*[A-Z0-9]\b", page.read_text()))
    families = {name for name in named if re.search(rf"{name}_?…", page.read_text())}
    assert named - families - known_variables() == set()


def test_commands_and_their_options_exist():
    found = 0
    for block, line in shell_text():
        words = line.replace('", "', " ").replace('["', " ").replace('"]', " ").split()
        programs = [index for index, word in enumerate(words) if word.endswith("conductor-worker")]
        for index in programs:
            if words[index - 1 : index] == ["install"] or index + 1 >= len(words):
                continue
            name, rest = words[index + 1], words[index + 2 :]
            assert name in COMMANDS, f"{block}: {line}"
            flags = {flag for param in COMMANDS[name].params for flag in [*param.opts, *param.secondary_opts]}
            assert [word for word in rest if word.startswith("--") and word not in flags] == [], f"{block}: {line}"
            found += 1
    assert found > 10


@each_page
def test_flags_in_the_prose_exist(page: Path):
    flags = {flag for command in COMMANDS.values() for p in command.params for flag in [*p.opts, *p.secondary_opts]}
    foreign = {"--env", "--help"}
    named = {word.split()[0] for word in code_words(page) if word.startswith("--") and word != "---"}
    assert named - flags - foreign == set()


@each_page
def test_metrics_exist(page: Path):
    known = {metric.name for metric in METRICS} | {f"{m.name}_{end}" for m in METRICS for end in ("sum", "count")}
    named = set(
        re.findall(
            r"\b(?:task|worker|http)_[a-z_]+_(?:total|seconds|bytes|count|sum|slots|in_use|tasks)\b", page.read_text()
        )
    )
    options = {*OPTIONS, "http_port"}
    assert named - known - options == set()


@each_page
def test_events_exist(page: Path):
    known = {event.__name__ for event in EVENT_TYPES}
    pattern = r"(?:Poll|TaskExecution|TaskUpdate|TaskLease|Worker)(?:Start|Complet|Fail|Retr|Extend|Lost|Stopp)\w*"
    assert {word for word in code_words(page) if re.fullmatch(pattern, word)} - known == set()


@each_page
def test_make_targets_exist(page: Path):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shell = "\n".join(block.code for block in blocks("sh") if block.page == page)
    named = re.findall(r"`make ([a-z-]+)`", prose_of(page)) + re.findall(r"^make ([a-z-]+)", shell, re.MULTILINE)
    assert set(named) - targets == set()


@each_page
def test_options_in_the_prose_exist(page: Path):
    """A word like `poll_interval_millis=…`, or one that only an option could be."""
    looks_like_one = re.compile(r"(?:poll|update|journal|shutdown|lease_extend|idle_poll|verify|strict|overwrite)_\w+")
    named = {word.split("=")[0] for word in code_words(page) if looks_like_one.fullmatch(word.split("=")[0])}
    spellings = {spelling for row in OPTIONS.values() for spelling in row.spellings}
    assert named - spellings - {"update_interval", "poll_count"} == set()


# -- links and tables ---------------------------------------------------------------------------------------------


@each_page
def test_links_lead_somewhere(page: Path):
    for link in links(page):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_can_be_reached_from_the_overview():
    reached, todo = set(), [ROOT / "docs" / "index.md"]
    while todo:
        page = todo.pop()
        if page.suffix == ".md" and page not in reached and page.exists():
            reached.add(page)
            todo += [(page.parent / link.partition("#")[0]).resolve() for link in links(page) if "://" not in link]
    strays = {page for page in PAGES if page.is_relative_to(ROOT / "docs")} - reached
    assert strays <= {ROOT / "docs" / "worker" / "README.md"}  # the other way round: it points here


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "reference").glob("*.md")), ids=lambda page: page.stem)
def test_generated_tables_are_current(page: Path):
    filled = runpy.run_path(str(ROOT / "docs" / "generate.py"))["filled"]
    assert filled(page.read_text()) == page.read_text(), "run: python docs/generate.py"
