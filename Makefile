# Each target is one command. `make demo` and `make test` install what they need into .venv, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-all test-export check docs bench gpu tune thunderkittens real-kernels golden wheel clean

demo: $(VENV)/.installed
	$(BIN)/python -m tkjit demo

# each core runs one file at a time, because half of the time is spent in single-threaded compilers
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# all packages, with one case of each large parametrization
test: $(VENV)/.installed-for-tests
	$(PYTEST) -m "not slow and not languages"

# also the tests marked slow: whole zoos, every case of the sweeps, fuzzing, and tests that repeat what a quicker one covers
test-all: $(VENV)/.installed-for-tests
	@echo "make test, and these slow tests:"
	@$(BIN)/python -m pytest -m slow --collect-only -qq
	$(PYTEST)

# exports in Go and Rust; installs a missing compiler if apt-get is available
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
test-export: $(VENV)/.installed-for-tests
	command -v go || $(SUDO) apt-get install --yes golang-go
	command -v cargo || $(SUDO) apt-get install --yes cargo
	$(BIN)/python -m pytest -m languages tests/exports

# compiles nothing; skips tests/project/test_style.py, which runs the same three commands, and the tests of remote caches,
# half of whose time is spent waiting for servers
check: $(VENV)/.installed-for-tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(PYTEST) -q -m "not slow and not compiles and not nvcc and not gpu and not languages" \
		--ignore tests/project/test_style.py --ignore tests/cache/remote

# the documentation site, in build/docs; a broken link is an error
docs: $(VENV)/.installed-for-tests
	rm -rf build/docs  # pages that were renamed
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -b html docs build/docs
	@echo "open build/docs/index.html"

# prints a table and writes it as JSON; fails if a result exceeds its limit
bench: $(VENV)/.installed-for-benchmarks
	$(BIN)/python -m benchmarks --json benchmarks/results.json

# on a machine with a GPU: the tests marked gpu under both compilers, the verification of ThunderKittens' kernels, and
# benchmarks/gpu, in shards of at most 8 minutes; resumes where it stopped; writes gpu-results/results.json and .md
gpu: $(VENV)/.installed-for-benchmarks
	$(BIN)/python -m benchmarks.gpu

# on a machine with a GPU: verifies and tunes the bundled kernels, and measures them beside their peers; stops after two
# minutes, and resumes; writes gpu-results/tune.json, which benchmarks.tune_report puts into docs/explanation/performance.md
tune: $(VENV)/.installed-for-benchmarks
	$(BIN)/python -m benchmarks.tune

# compiles ThunderKittens' kernels and verifies them, on the CPU and on an H100 if there is one: docs/howto/thunderkittens.md
#   make thunderkittens THUNDERKITTENS_ROOT=~/ThunderKittens
# without the variable, it uses the headers that `python -m tkjit headers add thunderkittens` (and curand) installed
thunderkittens: $(VENV)/.installed-for-tests
	$(if $(THUNDERKITTENS_ROOT),THUNDERKITTENS_ROOT=$(THUNDERKITTENS_ROOT)) $(BIN)/python -m benchmarks.thunderkittens
	$(if $(THUNDERKITTENS_ROOT),THUNDERKITTENS_ROOT=$(THUNDERKITTENS_ROOT)) $(BIN)/python -m benchmarks.thunderkittens_on_cpu

# finds out which sources in some directories load unchanged, and runs the known references: docs/explanation/real-kernels.md
#   make real-kernels DIRECTORIES="LeetCUDA/kernels vllm/csrc" OPTIONS="--include cutlass/include --flag=-DENABLE_FP8"
#   make real-kernels EXTENSIONS=DIRECTORY, with checkouts and a manifest: benchmarks/real_extensions.py
real-kernels: $(VENV)/.installed-for-benchmarks
	$(if $(DIRECTORIES),$(BIN)/python -m benchmarks.real_kernels $(DIRECTORIES) $(OPTIONS))
	$(if $(DIRECTORIES),$(BIN)/python -m benchmarks.real_references $(DIRECTORIES))
	$(if $(DIRECTORIES),$(BIN)/python -m benchmarks.real_specs $(DIRECTORIES))
	$(if $(EXTENSIONS),$(BIN)/python -m benchmarks.real_extensions $(EXTENSIONS) $(OPTIONS))
	$(if $(EXTENSIONS),$(BIN)/python -m benchmarks.real_extension_references $(EXTENSIONS))

# updates tests/render/golden and tests/exports/golden after an intended change of the generated code
golden: $(VENV)/.installed-for-tests
	$(BIN)/python -m pytest -q tests/render/test_golden.py tests/exports/test_golden.py --update-golden

wheel: $(VENV)/.installed-for-tests
	$(BIN)/python -m hatchling build -t wheel

clean:
	rm -rf $(VENV) dist

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch numpy
	$(PIP) hatchling
	$(PIP) --no-build-isolation -e .
	@command -v nvidia-smi >/dev/null && $(MAKE) --no-print-directory $(VENV)/.nvcc || true
	@touch $@

$(VENV)/.installed-for-tests: $(VENV)/.installed
	$(PIP) --no-build-isolation -e '.[test]'
	@$(MAKE) --no-print-directory $(VENV)/.nvcc
	@touch $@

$(VENV)/.installed-for-benchmarks: $(VENV)/.installed-for-tests
	$(PIP) --no-build-isolation -e '.[bench]'
	@touch $@

# nvcc from PyPI, if the machine has no CUDA toolkit
$(VENV)/.nvcc:
	@command -v nvcc >/dev/null || test -x "$${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" || $(PIP) --no-build-isolation -e '.[nvcc]'
	@touch $@
