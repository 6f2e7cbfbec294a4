# On a fresh machine, start with `make demo` and `make test`. Everything is installed into .venv.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL: # two installations into one .venv

# The first interpreter that is new enough; override with PYTHON=...
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
# Marker files: `make demo` needs the package and its extras; all other targets need the developers' tools, too.
DEMO_READY := $(VENV)/.installed
READY := $(VENV)/.installed-with-tools
BROWSER_READY := $(VENV)/.installed-with-browser
AGENTS_READY := $(VENV)/.installed-with-agents
DOCS_READY := $(VENV)/.installed-with-docs
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Twice as many test processes as a small machine has cores: tests wait for other processes more than they compute.
# A test that needs the machine for itself is marked slow; the slow suite has one process per core.
# Images of Python set PYTHONDONTWRITEBYTECODE. Without bytecode, hundreds of processes would compile their imports.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -q
JOBS ?= 4
SLOW_JOBS ?= 2

.PHONY: help setup demo test test-slow test-browser test-conductor chaos check format docs dist bench clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

setup: $(READY)  ## make .venv with the tools of all targets

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "conductor-worker needs Python 3.11 or newer; none was found on PATH (set PYTHON=/path/to/python3)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "$(PYTHON) cannot make a virtual environment: install its venv module (Debian: apt-get install python3-venv)"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(DEMO_READY): pyproject.toml | $(BIN)/python
	@echo 'installing conductor-worker into $(VENV); that takes about half a minute'
	@$(PIP) --no-compile -e '.[all]'
	@touch $@

# The tools are a dependency group, which pip knows from 25.1 on.
$(READY): pyproject.toml | $(BIN)/python
	@echo 'installing conductor-worker and the tools of its developers into $(VENV); that takes a minute or two'
	@$(PIP) --upgrade 'pip>=25.1'
	@$(PIP) -e '.[all]' --group dev
	@touch $(DEMO_READY) $@

$(BROWSER_READY): $(READY)
	@$(PIP) --group browser
	@touch $@

$(AGENTS_READY): $(READY)
	@$(PIP) --group agents
	@touch $@

$(DOCS_READY): $(READY)
	@$(PIP) --group docs
	@touch $@

demo: $(DEMO_READY)  ## a small shop on the embedded server: workflows, retries, verdicts (ARGS=--keep leaves it running)
	@$(BIN)/python -m conductor.cli demo $(ARGS)

test: $(READY)  ## the fast suite: under five minutes
	$(PYTEST) -n $(JOBS) --dist loadgroup $(ARGS)

test-slow: $(AGENTS_READY)  ## the slow suite: kills, chaos and long property runs
	$(PYTEST) -m 'slow and not conductor' --timeout 1500 -n $(SLOW_JOBS) --dist loadgroup --durations 15 $(ARGS)

test-browser: $(BROWSER_READY)  ## the web UI in a real browser (needs Chromium); writes the pictures in docs/images
	$(PYTEST) -m browser --timeout 600 tests/browser $(ARGS)

test-conductor: $(READY)  ## the acceptance suite on real Conductor servers (JDK 21+ and Maven; TARGETS=conductor-sqlite,...)
	CONDUCTOR_TARGETS='$(TARGETS)' $(PYTEST) -m conductor --timeout 900 tests/acceptance $(ARGS)

chaos: $(READY)  ## bad network, full disks, kill -9, stopped processes: nothing lost, nothing twice (ARGS="--tasks 50000", --kills 200)
	$(BIN)/python -m tests.integration.chaos $(ARGS)

check: $(READY)  ## formatting, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)  ## format the code and apply ruff's fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(DOCS_READY)  ## fill the generated tables of the reference from the code, and build the site into build/site
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Archives carry the time of the last commit, so that two builds of a commit give the same bytes.
dist: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 1577836800)
dist: export PYTHONHASHSEED := 0
dist: $(READY)  ## wheel, sdist, bill of materials and checksums in dist/
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python tools/sbom.py > dist/conductor-worker.cdx.json
	cd dist && sha256sum * > SHA256SUMS

bench: $(READY)  ## compare with other libraries, in turns (ARGS=--quick: two minutes; ARGS="pickup shapes": parts)
	$(BIN)/python -m benchmarks $(ARGS)

clean:  ## remove the environment and all caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
