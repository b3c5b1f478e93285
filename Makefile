# Two commands on a fresh machine with Python 3.10 or newer: `make demo`, `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Measurements of real GPUs, which are no part of the project.
MEASURED := $(or $(PERFASSERT_MEASURED),$(wildcard ../shared/measured))
PAGE_ROWS := 97
ACCURACY_ROWS := 16
# Public programs are recorded, and public sources lie, outside: `perfassert validate SUITE --sources DIR`.
OUTSIDE = $(addprefix validation/,kernelbench_l40s.toml mixed_kernels.toml programs_3080.toml tensor_ladders_a100.toml \
  tensor_ladders_b200.toml)
SUITES = $(filter-out $(OUTSIDE),$(sort $(wildcard validation/*.toml)))
# Published figures are in the repository, so tests check them.
PUBLISHED = $(addprefix validation/,lattice_boltzmann.toml matmul_a6000.toml matrix_kernels.toml \
  own_kernels.toml)
CHECKED = $(filter-out $(PUBLISHED),$(SUITES))
VALIDATE = $(BIN)/perfassert validate --data $(MEASURED)

# Tests start many processes: what one has compiled the next one reads.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-exhaustive fuzz browser sanitize matrix interpreters lowest lint docs figures changelog bench counts accuracy accuracy-check clean

# A prediction, a gate that stops a change, an expectation that fails, a few examples; `make test` has all.
DEMO_LAUNCH = --device a100 --grid 128,128 --block 32,8 --arg rows=4096 --arg columns=4096

demo: $(VENV)/ready-demo
	@echo; echo "--- a prediction from CUDA source, without a GPU:"
	$(BIN)/perfassert predict examples/kernels/transpose.cu --kernel transpose_padded $(DEMO_LAUNCH)
	@echo; echo "--- a gate: a commit takes the padding out, pytest says no:"
	$(BIN)/python examples/story/story.py transpose
	@echo; echo "--- an expectation that fails on purpose, and why:"
	$(BIN)/python -m pytest examples/demo_failing.py -q; test $$? -eq 1
	@echo; echo "--- examples, described by hand and compiled:"
	$(BIN)/python -m pytest examples/test_jacobi2d5pt.py examples/kernels.perf.toml -q -v -k "jacobi or saxpy or transpose"

# A file's tests share what its fixtures have compiled, so they run in one process.
test: $(VENV)/ready
	$(BIN)/python -m pytest -n auto --dist loadfile $(PYTEST_OPTIONS)

# What `test` leaves out: further parameters of its tests, all of them or PART=2/28. A machine that runs
# another part each day has run all in four weeks; with `test` that is every test.
PART ?= 1/1

test-exhaustive: $(VENV)/ready
	$(BIN)/python -m pytest -n auto --dist loadfile --exhaustive $(PART) $(PYTEST_OPTIONS)

# So many inputs of each parser by Hypothesis, other ones each time, then so many seconds of each guided
# by coverage, an hour in all; with UNTIL=1000000 in turns, until each has that many. What that found worth
# keeping stays in .fuzz for the next time.
FUZZ ?= 5000
GUIDED ?= 120

fuzz: $(VENV)/ready
	PERFASSERT_FUZZ=$(FUZZ) $(BIN)/python -m pytest tests/fuzz -k "damage or calls" -n auto
	$(BIN)/python -m pip install --quiet --group fuzz
	$(BIN)/python tests/fuzz/guided.py $(GUIDED) $(if $(UNTIL),--until $(UNTIL))

# Pages in the system's Chromium; without it, or without this, these tests are skipped.
browser: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --group browser
	$(BIN)/python -m pytest tests/browser

sanitize: $(VENV)/ready
	$(BIN)/python tests/sanitize.py

# Digests of predictions, baselines and reports; PYTHONS names interpreters that have perfassert, too.
PYTHONS ?=

matrix: $(VENV)/ready
	$(BIN)/python benchmarks/same_everywhere.py $(PYTHONS)

# Imports, a prediction, tests in TOML and a gate on each promised Python that the machine has, with the
# dependencies that a user gets; PERFASSERT_REQUIRE_INTERPRETERS="3.10 3.13" makes it fail without these.
interpreters: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --group environments
	$(BIN)/python tests/packaging/interpreters.py $(VENV)/interpreters

# Tests on the oldest Python with the oldest version of each dependency that pyproject.toml names.
LOWEST = $(addprefix tests/,engines expect hardware kernel perf_toml predictor pytest_plugin)

lowest: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --group environments
	$(BIN)/python tests/packaging/interpreters.py $(VENV)/lowest --lowest -n auto --dist loadfile $(LOWEST)

# ruff sees syntax that the oldest Python lacks; standard_library.py sees names.
lint: $(VENV)/ready-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tests/packaging/standard_library.py
	$(BIN)/lint-imports

# News fragments of changes/ become the section of the package's version in CHANGELOG.md; DRAFT=1 only prints it.
VERSION = $(shell sed -n 's/^VERSION = "\(.*\)"$$/\1/p' src/perfassert/version.py)

changelog: $(VENV)/pip
	$(BIN)/python -m pip install --quiet --group release
	$(BIN)/towncrier build --version $(VERSION) $(if $(DRAFT),--draft,--yes)

# The figures of docs/explanation and the terminal of README.md, drawn from predictions; tests compare them with the committed files.
figures: $(VENV)/ready
	$(BIN)/python docs/figures.py
	$(BIN)/python docs/terminal.py
	$(BIN)/python docs/opcodes.py

# The site, in site/; a broken link, a missing anchor or a page outside the navigation is an error.
docs: $(VENV)/ready-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(VENV)/ready
	$(BIN)/python benchmarks/volumes.py
	$(BIN)/python benchmarks/pipeline.py
	$(BIN)/python benchmarks/compiled.py
	$(BIN)/python benchmarks/advice.py
	$(BIN)/python benchmarks/advice_pairs.py
	$(BIN)/python benchmarks/execution.py
	$(BIN)/python benchmarks/checked.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/load.py
	$(BIN)/python benchmarks/figures.py

# Counts of work against benchmarks/figures.json, which bench writes.
counts: $(VENV)/ready
	$(BIN)/python benchmarks/figures.py --check

# The page, over at most so many rows of a suite, and the record that accuracy-check compares with.
accuracy: $(VENV)/ready
	$(VALIDATE) $(SUITES) --rows $(PAGE_ROWS) --accuracy docs/results/accuracy.md \
	  --decisions docs/results/decisions.md
	$(VALIDATE) $(CHECKED) --rows $(ACCURACY_ROWS) --record validation/accuracy.json

accuracy-check: $(VENV)/ready
ifeq ($(MEASURED),)
	@echo "accuracy-check: left out, no measured data; name its folder in PERFASSERT_MEASURED"
else
	$(VALIDATE) $(CHECKED) --rows $(ACCURACY_ROWS) --against validation/accuracy.json
endif

# Bytecode is made of what is imported, not of all that is installed.
PIP_INSTALL = $(BIN)/python -m pip install --no-compile

$(VENV)/pip:
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --quiet --upgrade pip
	touch $@

$(VENV)/ready-demo: pyproject.toml | $(VENV)/pip
	$(PIP_INSTALL) --editable . --group demo
	touch $@

$(VENV)/ready: $(VENV)/ready-demo
	$(PIP_INSTALL) --group test
	touch $@

$(VENV)/ready-lint: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --group lint
	touch $@

$(VENV)/ready-docs: pyproject.toml | $(VENV)/pip
	$(PIP_INSTALL) --quiet --group docs
	touch $@

clean:
	rm -rf $(VENV) build dist site
