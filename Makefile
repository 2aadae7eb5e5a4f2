# `make demo` and `make test` work on a machine with Python 3.11 or newer and nothing else of ours.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check fuzz mutate bench bench-compare clean

demo: $(STAMP)
	$(BIN)/python -m stencils.demo

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile
	$(MAKE) check

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

fuzz: $(STAMP)
	$(BIN)/python -m tests.fuzz

mutate: $(STAMP)
	$(BIN)/python -m tests.mutate

bench: $(STAMP)
	$(BIN)/python -m tests.benchmarks.core
	$(BIN)/python -m tests.benchmarks.stored
	$(BIN)/python -m tests.benchmarks.exploring
	$(BIN)/python -m tests.benchmarks.first_result
	$(BIN)/python -m tests.benchmarks.memory
	$(BIN)/python -m tests.benchmarks.lift
	$(BIN)/python -m tests.benchmarks.compile_time
	$(BIN)/python -m tests.benchmarks.forms
	$(BIN)/python -m tests.benchmarks.tvm_builds

# before an issue is called resolved: the core beside hand-written JAX, against the ratios that are kept
bench-compare: $(STAMP)
	$(BIN)/python -m tests.benchmarks.core --compare

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e ".[export,test,peers,notebooks]"
	touch $(STAMP)

clean:
	rm -rf $(VENV) demo
