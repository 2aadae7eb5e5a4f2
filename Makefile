# `make demo` and `make test` work on a machine with Python 3.11 or newer and nothing else of ours.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := $(VENV)/.demo
OLDEST := $(VENV)-oldest
NEWEST := $(VENV)-newest
# the newest interpreter that is found; NEWEST_PYTHON=python3.14 make test-newest
NEWEST_PYTHON ?= $(firstword $(foreach v,3.14 3.13 3.12,$(if $(shell python$(v) -c "" 2>/dev/null && echo yes),python$(v))) $(PYTHON))
# What XLA compiled for tests, by machine: a run after the first takes a third of the time where it compiles most.
MACHINE := $(shell (uname -sm; grep -m1 ^flags /proc/cpuinfo) 2>/dev/null | cksum | cut -d' ' -f1)
COMPILED := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tensorir/tests-$(MACHINE)
KEPT := JAX_COMPILATION_CACHE_DIR="$(COMPILED)" JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0 \
    JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1

.PHONY: demo test test-oldest test-newest nightly check docs fuzz mutate near bench bench-compare bench-gpu test-gpu clean

demo: $(DEMO)
	$(BIN)/python -m stencils.demo

# what no run has read for two weeks goes
test: $(STAMP)
	$(if $(KEEP),mkdir -p "$(COMPILED)" && find "$(COMPILED)" -type f -atime +14 -delete)
	$(if $(KEEP),$(KEPT)) $(BIN)/python -m pytest -n 2 --dist loadfile
	$(MAKE) check

# everything that takes too long for each change: all generated programs, XLA's own settings throughout, labels and
# distribution with small stencils as kernels, the sweep over TVM's operators under schedules, a batch of each fuzzer,
# which functions tests enter, a hundred mutants by a new seed (their survivors are printed), and the table of benchmarks
nightly: $(VENV)/.bench
	NIGHTLY=1 $(BIN)/python -m pytest -n 2 --dist loadfile
	$(BIN)/python -m pytest -n 2 --dist loadfile --small-kernels tests/calls tests/distribution tests/documents \
		tests/stories tests/iterator tests/passes tests/stencils tests/peers/gt4py
	$(BIN)/python -m tests.near record
	$(BIN)/python -m tests.near never
	$(BIN)/python -m tests.mutate --count 100 --new
	$(BIN)/python -m tests.peers.sweep --values
	$(BIN)/python -m tests.padding.sweep_of_sizes
	$(BIN)/python -m tests.fuzz build/fuzz 1
	$(MAKE) bench

# the lowest versions that pyproject.toml promises, without peers; NumPy itself silences what netCDF4 says of its build
test-oldest: $(OLDEST)/.installed
	$(OLDEST)/bin/python -m pytest -n 2 --dist loadfile --ignore tests/peers --ignore tests/benchmarks \
	    -W "ignore:numpy.ndarray size changed:RuntimeWarning"

# the newest Python here and the newest versions of all that is needed, without peers
test-newest: $(NEWEST)/.installed
	$(NEWEST)/bin/python -m pytest -n 2 --dist loadfile --ignore tests/peers --ignore tests/benchmarks $(TESTS)

# the documents, the notebooks with their outputs, and the API, in the folder site
docs: $(VENV)/.docs
	$(BIN)/python docs/site.py build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	$(BIN)/python docs/scripts.py site

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/python -m tests.documents.links

fuzz: $(STAMP)
	$(BIN)/python -m tests.fuzz

# the tests nearest to a file, a folder, a builtin or a pass, within a minute: `make near FILE=lowering/rules/folds.py`
near: $(STAMP)
	$(BIN)/python -m tests.near $(FILE)

mutate: $(STAMP)
	$(BIN)/python -m tests.mutate

# the table of cases, under half an hour; `make bench BENCH="--quick hdiff"`
bench: $(VENV)/.bench
	$(BIN)/python -m tests.benchmarks $(BENCH)

# on a machine with a GPU, from a checkout, with a Python that has jax, numpy, xarray, equinox and islpy: nothing is
# installed. Where there is no GPU: PYTHON=... JAX_PLATFORMS=cpu make bench-gpu, with jax[cuda12]
bench-gpu:
	$(PYTHON) -m tests.benchmarks.gpus

# there too, with pytest, hypothesis and psutil: kernels and compiled programs on the device against the oracle
test-gpu:
	$(PYTHON) -m pytest -q tests/lowering/test_kernels_of_gpus.py tests/lowering/test_layouts_of_kernels.py \
		tests/test_properties.py -k "kernel or whole_numbers"

# before an issue is called resolved: the ratios to JAX by hand, against those that are kept or of `OLD=last.json`
OLD ?= tests/benchmarks/kept.json
bench-compare: $(VENV)/.bench
	$(BIN)/python -m tests.benchmarks --compare $(OLD)

$(DEMO): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -e ".[cli,plot]"
	touch $(DEMO)

$(VENV)/.docs: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -e ".[docs]"
	touch $(VENV)/.docs

$(VENV)/.bench: $(STAMP)
	$(BIN)/python -m pip install --quiet -e ".[bench]"
	touch $(VENV)/.bench

$(OLDEST)/.installed: pyproject.toml tests/oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet -c tests/oldest.txt -e ".[test]"
	touch $(OLDEST)/.installed

$(NEWEST)/.installed: pyproject.toml
	$(NEWEST_PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager -e ".[export,test,notebooks]"
	touch $(NEWEST)/.installed

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e ".[export,test,peers,notebooks]"
	touch $(STAMP)

clean:
	rm -rf $(VENV) $(OLDEST) $(NEWEST) demo site
