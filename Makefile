# Each target does its own set-up: Python 3.11 or later and make are all that has to be there.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := .venv-bench/.ready

.PHONY: help
help: ## List the targets
	@sed -nE 's/^([a-z]+):.*## (.*)$$/\1|\2/p' Makefile | while IFS='|' read -r name text; do \
		printf '  make %-8s %s\n' "$$name" "$$text"; done

.PHONY: demo
demo: $(READY) ## Release a small example and show what it did
	@$(BIN)/whenmask demo

.PHONY: test
test: $(READY) ## Run the tests, with branch coverage
	@$(BIN)/python -m pytest -n 2 --cov

.PHONY: check
check: $(READY) ## Check format, lint, types and the direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: $(READY) ## Format the code and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: bench
bench: $(READY) $(PEERS) ## Run the benchmarks and write docs/benchmarks.md
	@$(BIN)/python -m benchmarks --record

.PHONY: docs
docs: $(READY) ## Write the generated pages of docs/ anew
	@$(BIN)/python docs/generate.py

.PHONY: clean
clean: ## Remove the virtual environment, builds, caches and coverage data
	rm -rf $(VENV) .venv-bench build dist htmlcov .coverage .coverage.* coverage.xml
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment is made anew, in place, when what it is made from changes.
$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { \
		echo "Python is missing: there is no '$(PYTHON)'. Hint: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "whenmask needs Python 3.11 or later; got $$($(PYTHON) --version 2>&1)." \
			"Hint: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make a virtual environment: its module ensurepip or venv is missing." \
			"Hint: on Debian or Ubuntu, apt-get install python3-venv" >&2; exit 1; }
	@echo "Setting up $(VENV); this is done once and takes a minute or two."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# What the benchmarks compare with has an environment of its own, since it needs other versions.
$(PEERS): benchmarks/peers.txt
	@echo "Setting up .venv-bench, for the benchmarks' peers."
	@$(PYTHON) -m venv .venv-bench
	@.venv-bench/bin/python -m pip install -qq --disable-pip-version-check -r benchmarks/peers.txt
	@touch $@
