# Two commands on a fresh machine with Python 3.10 or newer: `make demo`, `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench clean

demo: $(VENV)/ready
	$(BIN)/python -m pytest examples -q -v
	@echo
	@echo "--- and one expectation that fails on purpose:"
	@$(BIN)/python -m pytest examples/demo_failing.py -q; test $$? -eq 1

test: $(VENV)/ready
	$(BIN)/python -m pytest $(PYTEST_OPTIONS)

lint: $(VENV)/ready-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/ready
	$(BIN)/python benchmarks/volumes.py
	$(BIN)/python benchmarks/pipeline.py
	$(BIN)/python benchmarks/compiled.py
	$(BIN)/python benchmarks/startup.py

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable . --group test
	touch $@

$(VENV)/ready-lint: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --group lint
	touch $@

clean:
	rm -rf $(VENV) build dist
