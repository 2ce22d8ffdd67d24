# Everything is made from here on a machine that has only Python 3.11 or newer, git and make.
# The environment in .venv is made at the first call, and its parts again only when the file that
# names them changes. ARGS goes to the command that runs: make test ARGS="-k style"

# A caller's own environment would lead to another Python or other packages.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE VIRTUAL_ENV PIP_USER PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
.SUFFIXES:

ARGS ?=
# Another interpreter to begin with: make test PYTHON=/path/to/python3
PYTHON ?=
CANDIDATES := $(PYTHON) python3.13 python3.12 python3.11 python3

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check -q
# Tests wait for processes, so there are more workers than cores.
WORKERS := $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
PYTEST := $(PY) -m pytest -n $(WORKERS) --dist worksteal

.PHONY: help demo check test e2e promises fuzz coverage lint format bench docs clean remake

help:
	@echo 'make demo      set up, and see the main job done in a temporary repository'
	@echo 'make check     lint, and test the core, the formats and the storage: under a minute'
	@echo 'make test      set up, and run the tests'
	@echo 'make e2e       drive the real clients against a model on loopback (docs/e2e.md)'
	@echo 'make lint      check style and types'
	@echo 'make format    fix the style where a tool can'
	@echo 'make coverage  the tests again, and which lines they never reach'
	@echo 'make promises  every promise over the whole product, with a table (docs/promises.md)'
	@echo 'make fuzz      feed every parser for as long as ARGS says, and keep what breaks one'
	@echo 'make bench     measure, and write bench/results/'
	@echo 'make docs      check the documentation, and build it into build/docs/'
	@echo 'make clean     remove what make made'

demo: $(VENV)/.package
	@$(VENV)/bin/holdfast demo $(ARGS)

# For the inner loop. A name that matches nothing is left out.
CHECKED := $(wildcard $(addprefix tests/, \
    core formats storage adopt workspace system test_style.py))

check: lint
	@$(PYTEST) -q $(CHECKED) $(ARGS)

test: $(VENV)/.dev
	@$(PYTEST) $(ARGS)

# What needs the network comes first; the scenarios themselves have none.
e2e: $(VENV)/.e2e e2e/.venv/.holdfast
	@$(PY) e2e/install.py
	@$(PY) e2e/loopback.py $(PY) -m pytest e2e $(ARGS)

promises: $(VENV)/.dev
	@$(PY) tests/promises/run.py $(ARGS)

# Without the fuzzer, which not every interpreter has, inputs are changed by chance; it says so.
fuzz: $(VENV)/.dev
	@$(PIP) install --only-binary :all: -r requirements-fuzz.txt || true
	@$(PY) tests/fuzz/run.py $(ARGS)

coverage: $(VENV)/.dev
	@$(PY) -m coverage erase
	@$(PY) -m coverage run -m pytest -n $(WORKERS) --dist worksteal $(ARGS); tests=$$?; \
	$(PY) -m coverage combine -q && $(PY) -m coverage report && exit $$tests

lint: $(VENV)/.dev
	@$(PY) -m ruff check -q .
	@$(PY) -m ruff format -q --check .
	@$(PY) -m mypy --no-error-summary
	@echo 'lint: clean'

format: $(VENV)/.dev
	@$(PY) -m ruff check -q --fix .
	@$(PY) -m ruff format -q .

# The graph is measured against the real Memory server; without it those rows say so.
bench: $(VENV)/.bench
	@$(PY) e2e/install.py @modelcontextprotocol/server-memory
	@$(PY) bench/run.py $(ARGS)

docs: $(VENV)/.dev
	@PYTHONPATH=tools $(PY) -m handbook $(ARGS)

clean:
	rm -rf $(VENV) e2e/.clients e2e/.venv build dist htmlcov .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests tools bench e2e -name __pycache__ -type d -prune -exec rm -rf {} +

# A .venv that was copied or moved still points to the old place, and one whose interpreter is gone
# does not run: both are made again.
ifneq "$(shell $(PY) -c '' 2>/dev/null && cat $(VENV)/.home 2>/dev/null)" "$(CURDIR)"
$(VENV)/.home: remake
endif

# A name on the path may be a version manager's shim that only complains, so each is tried.
$(VENV)/.home:
	@for python in $(CANDIDATES); do \
	    "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
	        >/dev/null 2>&1 || continue; \
	    echo "making $(VENV) with $$("$$python" -V)"; \
	    rm -rf $(VENV); \
	    "$$python" -m venv $(VENV) || exit 1; \
	    printf '%s\n' "$(CURDIR)" > $@; \
	    exit 0; \
	done; \
	echo 'Holdfast needs Python 3.11 or newer with its venv module, and none was found.' >&2; \
	echo 'Tried: $(strip $(CANDIDATES))' >&2; \
	echo 'Install one (Debian and Ubuntu: python3 and python3-venv), or name one:' >&2; \
	echo '    make $(or $(MAKECMDGOALS),test) PYTHON=/path/to/python3' >&2; \
	exit 1

$(VENV)/.package: $(VENV)/.home pyproject.toml
	@$(PIP) install -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.package requirements-dev.txt
	@$(PIP) install -r requirements-dev.txt
	@touch $@

$(VENV)/.bench: $(VENV)/.dev requirements-bench.txt
	@$(PIP) install -r requirements-bench.txt
	@touch $@

$(VENV)/.e2e: $(VENV)/.dev requirements-e2e.txt
	@$(PIP) install -r requirements-e2e.txt
	@touch $@

# Holdfast as a user has it: installed, not linked to this folder.
e2e/.venv/.holdfast: $(VENV)/.home pyproject.toml $(shell find src -not -path '*__pycache__*')
	@$(PY) -m venv --clear e2e/.venv
	@e2e/.venv/bin/python -m pip --disable-pip-version-check -q install '.[mcp,otel]'
	@touch $@
