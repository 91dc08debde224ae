# What a developer does here, each target complete on a machine with Python 3.11+, make and git.

PYTHON  ?= python3
WORKERS ?= 2
ARGS    ?=

VENV    := .venv
PY      := $(VENV)/bin/python
DEV     := $(VENV)/.dev-installed
BENCH   := $(VENV)/.bench-installed

# Every download is hashed. Build isolation would fetch build backends that are not, so they are
# installed first, from build.lock. nkeys is the one dependency that is published as source only.
PIP     := $(PY) -m pip --disable-pip-version-check -qq
LOCKED  := install --require-hashes --only-binary :all: --no-binary nkeys --no-build-isolation
COMPILE := $(PY) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
           --no-emit-index-url --custom-compile-command "make lock"

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install test check format demo bench lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(DEV) ## create .venv with the locked tools and jetspark, editable
	@echo "jetspark is installed in $(VENV). Next: make test, make demo."

test: $(DEV) ## run the tests (ARGS="tests/wire -k parser", WORKERS=2)
	$(PY) -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

check: $(DEV) ## check format, lint, types and layers, as CI does
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(PY) -m pytest -q tests/unit/test_layers.py

format: $(DEV) ## format the code and fix what the linter can fix
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

demo: $(DEV) ## run the quick start against a server of its own
	$(PY) examples/quickstart.py $(ARGS)

bench: $(BENCH) ## measure jetspark beside its peers (ARGS is passed on)
	$(PY) -m bench $(ARGS)

lock: | $(PY) ## resolve requirements/*.lock from pyproject.toml (ARGS=--upgrade for newer versions)
	$(PIP) install uv
	$(COMPILE) --group build -o requirements/build.lock $(ARGS)
	$(COMPILE) pyproject.toml --extra server --extra cli --group dev -c requirements/build.lock \
	    -o requirements/dev.lock $(ARGS)
	$(COMPILE) --group bench -c requirements/dev.lock -o requirements/bench.lock $(ARGS)

clean: ## remove .venv, caches and build output
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A new lock or pyproject.toml makes the stamps stale; the environment itself is kept.
$(DEV): requirements/build.lock requirements/dev.lock pyproject.toml | $(PY)
	@echo "Installing the packages of requirements/dev.lock ..."
	@$(PIP) $(LOCKED) -r requirements/build.lock
	@$(PIP) $(LOCKED) -r requirements/dev.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(BENCH): requirements/bench.lock $(DEV)
	@echo "Installing the packages of requirements/bench.lock ..."
	@$(PIP) $(LOCKED) -r requirements/bench.lock
	@touch $@

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "error: jetspark needs Python 3.11 or newer, and $(PYTHON) is" \
	        "$$($(PYTHON) -V 2>/dev/null || echo missing). Try: make install PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "error: $(PYTHON) has no venv module. Install it (Debian, Ubuntu: apt install python3-venv)" \
	        "and run make again" >&2; exit 1; }
	@echo "Creating $(VENV) ($$($(PYTHON) -V)) ..."
	@$(PYTHON) -m venv --clear $(VENV)
