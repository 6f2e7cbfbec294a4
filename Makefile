# Two commands on a fresh machine: `make demo` and `make test`. Everything lives in .venv; nothing else is touched.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The first interpreter that is new enough; override with PYTHON=...
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Two workers on two cores; a test that needs the machine for itself is marked slow.
PYTEST := $(BIN)/python -m pytest -q
JOBS ?= 2

.PHONY: help setup demo test test-slow test-conductor check format docs bench clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

setup: $(STAMP)  ## make .venv with everything the targets below need

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "conductor-worker needs Python 3.11 or newer; none was found on PATH (set PYTHON=/path/to/python3)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "$(PYTHON) cannot make a virtual environment: install its venv module (Debian: apt-get install python3-venv)"; exit 1; }
	@echo 'making $(VENV) with what the targets need; that takes a minute'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(STAMP)

demo: $(STAMP)  ## a small shop on the embedded server: workflows, retries, verdicts (ARGS=--keep leaves it running)
	@$(BIN)/python -m conductor.cli demo $(ARGS)

test: $(STAMP)  ## the fast suite: under five minutes
	$(PYTEST) -n $(JOBS) --dist loadgroup $(ARGS)

test-slow: $(STAMP)  ## kills, chaos and long property runs
	$(PYTEST) -m slow --timeout 1500 -n $(JOBS) --dist loadgroup --durations 15 $(ARGS)

test-conductor: $(STAMP)  ## the acceptance suite on real Conductor servers (JDK 21+ and Maven; TARGETS=conductor-sqlite,...)
	CONDUCTOR_TARGETS='$(TARGETS)' $(PYTEST) -m conductor --timeout 900 tests/conductor $(ARGS)

check: $(STAMP)  ## formatting, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(STAMP)  ## let ruff rewrite what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP)  ## fill the generated tables of the reference from the code
	$(BIN)/python docs/generate.py

bench: $(STAMP)  ## ratios, measured side by side in one run
	$(BIN)/python -m benchmarks $(ARGS)

clean:  ## remove the environment and every cache
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
