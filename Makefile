# The targets for developers. Each works on a machine with only Python 3.11+, make and git.

PYTHON  ?= python3
WORKERS ?= 2
ARGS    ?=

VENV    := .venv
PY      := $(VENV)/bin/python
DEV     := $(VENV)/.dev-installed
SPARK   := $(VENV)/.spark-installed
BENCH   := $(VENV)/.bench-installed
WARM    := $(VENV)/.warmed
DOCS    := $(VENV)-docs/.installed
COMPILED := src/jetspark/wire/compiled.pyx

PYTEST  := scripts/with-java $(PY) $(if $(COVERAGE),-m coverage run) -m pytest --dist worksteal --durations 20
# The tests and measurements of the console, and so all of them, need a browser.
BROWSER := $(if $(strip $(ARGS)),$(if $(findstring console,$(ARGS)),scripts/with-chromium),scripts/with-chromium)
# Tests that use the CPU, in Spark. The others mostly wait, so more of them can run at a time.
COMPUTING := tests/spark tests/logs/job

# The versions of Spark that `make test-matrix` adds to the one of spark.lock, each in a .venv of its own.
SPARKS  := 4.0 4.1 4.2
MATRIX  := $(SPARKS:%=.venv-spark-%)

# Every download is hashed. Build isolation would fetch build backends that are not, so they are
# installed first, from build.lock. nkeys and pyspark are published as source only.
PIP     := -m pip --disable-pip-version-check -qq
LOCKED  := install --require-hashes --only-binary :all: --no-binary nkeys,pyspark --no-build-isolation
COMPILE := $(PY) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
           --no-emit-index-url --custom-compile-command "make lock"

# The tests start hundreds of Python processes: without bytecode each would compile all of jetspark again.
unexport PYTHONDONTWRITEBYTECODE
export THOROUGH SCREENSHOTS

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install test test-faults coverage test-pure test-uvloop test-asan test-matrix docs wheel wheels $(SPARKS:%=test-spark-%) golden check format demo bench chaos fuzz lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(WARM) ## create .venv with the locked tools, Spark, Java if none fits, and jetspark, editable
	@scripts/with-java true
	@echo "jetspark is installed in $(VENV). Next: make test, make demo."

test: $(WARM) ## run the tests (ARGS="tests/wire -k parser", THOROUGH=1 tries more of everything)
ifeq ($(strip $(ARGS)),)
	$(BROWSER) $(PYTEST) -n $$(($(WORKERS) * 4)) tests $(COMPUTING:%=--ignore=%); without=$$?; \
	$(PYTEST) -n $$(($(WORKERS) + 1)) $(COMPUTING) && exit $$without
else
	$(BROWSER) $(PYTEST) -n $(WORKERS) $(ARGS)
endif

test-faults: $(WARM) ## kill servers, leaders, agents and Spark at random moments (ARGS="tests/faults -k leader")
	$(PYTEST) -m faults -n $$(($(WORKERS) * 2)) --log-level INFO $(or $(ARGS),tests)

test-pure: $(DEV) ## run the tests of the wire layer and of JetStream without the compiled part
	JETSPARK_PURE=1 $(PYTEST) -n $$(($(WORKERS) * 4)) tests/wire tests/jetstream

test-uvloop: $(BENCH) ## run the tests of the connection and of JetStream on uvloop
	UVLOOP=1 $(PYTEST) -n $$(($(WORKERS) * 4)) tests/core tests/jetstream tests/faults

coverage: ## tell how much of src the runs with COVERAGE=1 ran (make test COVERAGE=1, make test-faults COVERAGE=1)
	$(PY) -m coverage combine --quiet --keep
	$(PY) -m coverage report --sort cover --skip-covered

golden: $(SPARK) ## write the golden files anew; read the diff
	GOLDEN=write $(PYTEST) -q -n $(WORKERS) tests
	@git --no-pager diff --stat tests/golden

test-asan: $(DEV) ## run the tests of the compiled part with AddressSanitizer
	rm -rf build/asan && mkdir -p build/asan && cp -r src build/asan
	CFLAGS="-fsanitize=address -fno-omit-frame-pointer -O1 -g" $(PY) hatch_build.py build/asan/src
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so)" \
	    ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc PYTHONPATH=build/asan/src \
	    $(PY) -m pytest -q tests/wire tests/test_arrow.py

wheel: $(DEV) ## build a wheel, with the compiled part for this Python and this machine, into dist
	$(PY) $(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist

wheels: $(SPARK) ## build sdist and wheel, and try each extra in an empty environment (ARGS="cli server")
	scripts/with-java $(PY) scripts/try-wheels $(ARGS)

docs: $(DOCS) ## build the documentation site into build/site; broken links and references fail
	NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/python -m mkdocs build --strict
	@echo "The site is in build/site. With search: $(PY) -m http.server -b 127.0.0.1 -d build/site"

test-matrix: $(SPARKS:%=test-spark-%) ## run the Spark tests on older versions too (one: make test-spark-4.0)

$(SPARKS:%=test-spark-%): test-spark-%: .venv-spark-%/.installed
	scripts/with-java .venv-spark-$*/bin/python -m pytest -n $$(($(WORKERS) + 1)) --dist worksteal \
	    tests/spark tests/logs/job $(ARGS)

check: $(SPARK) ## check format, lint, types, layers, the documentation site and known vulnerabilities, as CI does
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(PY) -m pytest -q tests/rules/test_layers.py
	@$(MAKE) --no-print-directory docs
	$(PY) scripts/audit

format: $(DEV) ## format the code and fix what the linter can fix
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

demo: $(SPARK) ## run the whole log pipeline for a minute, and kill Spark halfway (ARGS="--hosts 20", ARGS=--help)
	scripts/with-java $(PY) -m jetspark demo $(ARGS)

bench: $(BENCH) ## measure jetspark beside its peers, write docs/benchmarks.md (ARGS="fetch publish --rounds 3")
	$(BROWSER) scripts/with-java $(PY) -m bench $(ARGS)

chaos: $(DEV) ## break servers and connections under random workloads for 20 minutes (ARGS="--minutes 5 --seed 7")
	$(PY) -m chaos $(ARGS)

fuzz: $(SPARK) ## mutate the data that servers and other clients send, for 5 minutes (ARGS="--seconds 3600 --seed 7")
	$(PY) -m tests.fuzz $(ARGS)

lock: | $(PY) ## resolve requirements/*.lock from pyproject.toml (ARGS=--upgrade for newer versions)
	$(PY) $(PIP) install uv
	$(COMPILE) --group build -o requirements/build.lock $(ARGS)
	$(COMPILE) pyproject.toml --extra server --extra console --extra otel --group dev -c requirements/build.lock \
	    -o requirements/dev.lock $(ARGS)
	$(COMPILE) pyproject.toml --extra spark --extra demo --extra delta --extra iceberg --group spark -c requirements/build.lock \
	    -c requirements/dev.lock -o requirements/spark.lock $(ARGS)
	for version in $(SPARKS); do echo "pyspark==$$version.*" | \
	    $(COMPILE) pyproject.toml --extra demo --extra delta --extra iceberg --group dev --group spark \
	    -c requirements/build.lock -c requirements/dev.lock -c - \
	    -o requirements/spark-$$version.lock $(ARGS) || exit; done
	$(COMPILE) --group java -o requirements/java.lock $(ARGS)
	$(COMPILE) --group bench -c requirements/dev.lock -o requirements/bench.lock $(ARGS)
	$(COMPILE) --group audit -o requirements/audit.lock $(ARGS)
	$(COMPILE) --group dist -o requirements/dist.lock $(ARGS)
	$(COMPILE) --group docs -c requirements/dev.lock -o requirements/docs.lock $(ARGS)

clean: ## remove .venv, those of the matrix, caches and build output
	rm -rf $(VENV) $(MATRIX) .venv-audit .venv-dist .venv-docs build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A new lock or pyproject.toml makes the stamps stale; the environment itself is kept.
$(DEV): requirements/build.lock requirements/dev.lock pyproject.toml hatch_build.py $(COMPILED) | $(PY)
	@echo "Installing the packages of requirements/dev.lock ..."
	@$(PY) $(PIP) $(LOCKED) -r requirements/build.lock
	@$(PY) $(PIP) $(LOCKED) -r requirements/dev.lock
	@$(PY) $(PIP) install --no-deps --no-build-isolation --editable .
	@$(PY) -c 'import jetspark.wire as wire; wire.COMPILED or print("No C compiler with the headers of Python was" \
	    " found: jetspark runs in pure Python, which is slower. (Debian, Ubuntu: apt install gcc python3-dev)")'
	@touch $@

$(SPARK): requirements/spark.lock $(DEV)
	@echo "Installing the packages of requirements/spark.lock (Spark alone is 450 MB) ..."
	@$(PY) $(PIP) $(LOCKED) -r requirements/spark.lock
	@touch $@

# An archive of Spark's classes, with which its many short-lived processes start in half the time; and the bytecode of
# the tests, which otherwise each worker would compile for itself.
$(WARM): $(SPARK)
	@echo "Archiving the classes of Spark and compiling the tests ..."
	@$(PY) -m pytest --collect-only -q tests >/dev/null & \
	scripts/with-java $(PY) -m tests.support.quick_spark 2>$(VENV)/archive.log || \
	    echo "No archive; tests are slower without it. The reason is in $(VENV)/archive.log"; \
	wait $$!
	@touch $@

$(DOCS): requirements/docs.lock | $(PY)
	@echo "Installing the packages of requirements/docs.lock into $(@D) ..."
	@$(PY) -m venv --clear $(@D)
	@$(@D)/bin/python $(PIP) install --require-hashes --only-binary :all: -r requirements/docs.lock
	@touch $@

$(BENCH): requirements/bench.lock $(SPARK)
	@echo "Installing the packages of requirements/bench.lock ..."
	@$(PY) $(PIP) $(LOCKED) -r requirements/bench.lock
	@touch $@

$(MATRIX:%=%/.installed): .venv-spark-%/.installed: requirements/build.lock requirements/spark-%.lock \
        pyproject.toml | $(PY)
	@echo "Installing the packages of requirements/spark-$*.lock into $(@D) (Spark alone is 450 MB) ..."
	@$(PY) -m venv $(@D)
	@$(@D)/bin/python $(PIP) $(LOCKED) -r requirements/build.lock
	@$(@D)/bin/python $(PIP) $(LOCKED) -r requirements/spark-$*.lock
	@$(@D)/bin/python $(PIP) install --no-deps --no-build-isolation --editable .
	@scripts/with-java $(@D)/bin/python -m tests.support.quick_spark 2>$(@D)/archive.log
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
