.DEFAULT_GOAL := help
.PHONY: help setup demo serve docs test test-slow test-browser fuzz mutants check lint types clean

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt
export CUBLAS_WORKSPACE_CONFIG := :4096:8

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 14

.venv/base: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(PIP) --editable .
	@touch $@

.venv/ready: .venv/base
	$(PIP) --editable '.[dev]'
	@touch $@

setup: .venv/ready  ## create .venv with everything for development, pinned

demo: .venv/base  ## drive a simulated street twice, match two frames, write demo-output/report.html
	$(BIN)/robustmat demo --out demo-output

serve: .venv/base  ## open the page at http://localhost:8000/
	$(PIP) --editable '.[web]'
	$(BIN)/robustmat serve

test: setup  ## run the test suite (about five minutes on two cores)
	$(BIN)/python -m pytest -n 2 -m 'not slow and not browser'

test-slow: setup  ## run the checks that take minutes each
	$(BIN)/python -m pytest -m slow

test-browser: setup  ## test the page in Chromium, which must be installed; axe-core comes from npm
	$(PIP) playwright
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && npm install --silent --prefix "$$folder" axe-core@4 && \
	ROBUSTMAT_AXE="$$folder/node_modules/axe-core/axe.min.js" $(BIN)/python -m pytest -m browser $(BROWSER_TESTS) tests/test_web_browser.py

docs: setup  ## build the documents as a site: build/site/docs/index.html; a broken link or an orphan page is an error
	$(PIP) --editable '.[docs]'
	$(BIN)/python -m sphinx -q -W --keep-going -b html -c docs . build/site

FUZZ_CASES ?= 100000
FUZZ_MINUTES ?= 60
fuzz: setup  ## read 100,000 damaged files and requests; the report goes to build/fuzz.md
	$(BIN)/python tests/fuzz_for_tests.py --cases $(FUZZ_CASES) --minutes $(FUZZ_MINUTES) --report build/fuzz.md

MUTANTS ?= 1.0
mutants: setup  ## does a test notice? change the code that decides right and wrong, one place at a time; build/mutants.md
	$(PIP) mutmut
	$(BIN)/python tests/mutants_for_tests.py --share $(MUTANTS) --report build/mutants.md

lint: setup  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup  ## mypy, strict
	$(BIN)/mypy

check: lint types test  ## lint, types, tests

clean:  ## remove what the targets made
	rm -rf .venv demo-output build dist
