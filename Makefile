# Everything a developer does here. `make` alone lists it.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=
SESSION ?= core

PACKAGES := $(wildcard jobs videos project tests benchmarks)
PIP      := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Runs the tests of a tier (tests/tiers.py) in several processes, each with a database of its own (ARGS=-n0: one process).
TIER     := $(BIN)/python -m tests.tiers
NPM      := $(shell command -v npm 2>/dev/null)
# What browsers without HLS of their own need. Where there is no npm, the site runs without it and the watch page says so.
PLAYER   := $(if $(NPM),vendor/hls.js/.installed)

# Machines that switch bytecode off would compile the project anew at each start of a process, and tests start thousands.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/.installed $(PLAYER) ## Set up and start the site with a worker (PORT=8000)
	@DEBUG=true exec $(BIN)/python -m project.quickstart

test: $(VENV)/.installed-dev $(PLAYER) ## Run the tests before a commit: minutes (ARGS="-k lease" goes to pytest)
	@$(TIER) test $(ARGS)

test-rest: $(VENV)/.installed-dev $(PLAYER) ## Run what `make test` leaves out
	@$(TIER) rest $(ARGS)

test-all: ## Run all tests on both databases (browsers once, on SQLite)
	@$(MAKE) --no-print-directory test test-rest --keep-going

test-strangers: $(VENV)/.installed-dev $(PLAYER) ## Play videos in Firefox and WebKit, where they are installed
	@$(TIER) strangers $(ARGS)

matrix: $(VENV)/.installed-dev ## Run the core's tests on every pair of Python and Django that this machine has
	$(BIN)/nox --session "$(SESSION)" -- --quiet $(ARGS)

check: export DJANGO_SETTINGS_MODULE = tests.settings
check: $(VENV)/.installed-dev ## Lint, format, types, import contract, migrations, system checks
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy $(PACKAGES)
	$(BIN)/lint-imports
	$(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/python manage.py check

format: $(VENV)/.installed-dev ## Format the code and mend what ruff can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

mutations: $(VENV)/.installed-dev ## Break the queue in twelve places, one by one, and see that a test fails (ARGS="3 7")
	@$(BIN)/python -m tests.mutations $(ARGS)

bench: $(VENV)/.installed-dev ## Measure the queue beside its peers
	$(BIN)/python -m benchmarks $(ARGS)

player: $(PLAYER) ## Install hls.js into vendor (needs npm)

wheel: $(VENV)/.installed-dev ## Build the wheel into dist/
	$(BIN)/python -m build --wheel

clean: ## Remove what can be made again; data and the secret key stay
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache \
		.import_linter_cache .hypothesis staticfiles node_modules vendor .nox .cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed: requirements.txt | $(BIN)/python
	@echo "Installing what the site needs into $(VENV)…"
	@$(PIP) -r requirements.txt
	@touch $@

$(VENV)/.installed-dev: requirements.txt requirements-dev.txt | $(BIN)/python
	@echo "Installing what tests and checks need into $(VENV)…"
	@$(PIP) -r requirements-dev.txt
	@touch $@ $(VENV)/.installed

# A machine that cannot reach npm's registry is told, and goes on without.
vendor/hls.js/.installed: package.json package-lock.json
	@echo "Installing hls.js into vendor…"
	@if $(NPM) ci --silent --no-audit --no-fund --ignore-scripts; then \
		mkdir -p vendor/hls.js && \
		cp node_modules/hls.js/LICENSE node_modules/hls.js/dist/hls.min.js* node_modules/hls.js/dist/hls.worker.js* vendor/hls.js/ && \
		touch $@; \
	else echo "hls.js was not installed; browsers that do not play HLS by themselves will not play." >&2; fi

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed, as $(PYTHON); name another with: make $(MAKECMDGOALS) PYTHON=…" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 2; }

.PHONY: help run test test-rest test-all test-strangers mutations matrix check format bench player wheel clean
