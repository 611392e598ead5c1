# One command each. `make demo` and `make test` install what they need into .venv, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-all test-export check bench gpu thunderkittens real-kernels golden wheel clean

demo: $(VENV)/.installed
	$(BIN)/python -m tkjit demo

# a file at a time on each core: half of the time is a compiler's, which has one thread
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# every room, with a few of many alike cases
test: $(VENV)/.installed-for-tests
	$(PYTEST) -m "not slow and not languages"

# also the tests marked slow: the checker's zoos whole, every case of the sweeps over dtypes, architectures and
# instructions, the fuzz, and what takes long by itself
test-all: $(VENV)/.installed-for-tests
	@echo "make test, and what it leaves out:"
	@$(BIN)/python -m pytest -m slow --collect-only -qq
	$(PYTEST)

# exports in Go and Rust; installs what of the two is missing, where apt-get can
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
test-export: $(VENV)/.installed-for-tests
	command -v go || $(SUDO) apt-get install --yes golang-go
	command -v cargo || $(SUDO) apt-get install --yes cargo
	$(BIN)/python -m pytest -m languages tests/exports

# without compiling anything; what tests/project/test_style.py runs has just been run
check: $(VENV)/.installed-for-tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(PYTEST) -q -m "not slow and not compiles and not nvcc and not gpu and not languages" --ignore tests/project/test_style.py

# a table, and the same as JSON; fails where a limit is passed
bench: $(VENV)/.installed-for-benchmarks
	$(BIN)/python -m benchmarks --json benchmarks/results.json

# on a machine with a GPU: the tests marked gpu, under both compilers, the verification of ThunderKittens' kernels and
# benchmarks/gpu, in shards of at most 8 minutes; writes gpu-results/results.json and .md, and goes on where it stopped
gpu: $(VENV)/.installed-for-benchmarks
	$(BIN)/python -m benchmarks.gpu

# compiles ThunderKittens' kernels, and verifies them where there is an H100, and on the CPU: docs/thunderkittens.md
#   make thunderkittens THUNDERKITTENS_ROOT=~/ThunderKittens
# without the variable: what `python -m tkjit headers add thunderkittens` (and curand) has installed
thunderkittens: $(VENV)/.installed-for-tests
	$(if $(THUNDERKITTENS_ROOT),THUNDERKITTENS_ROOT=$(THUNDERKITTENS_ROOT)) $(BIN)/python -m benchmarks.thunderkittens
	$(if $(THUNDERKITTENS_ROOT),THUNDERKITTENS_ROOT=$(THUNDERKITTENS_ROOT)) $(BIN)/python -m benchmarks.thunderkittens_on_cpu

# which of the sources in some directories load as they are, and the references of those that are known: docs/real-kernels.md
#   make real-kernels DIRECTORIES="LeetCUDA/kernels vllm/csrc" OPTIONS="--include cutlass/include --flag=-DENABLE_FP8"
#   make real-kernels EXTENSIONS=DIRECTORY, of checkouts with a manifest: benchmarks/real_extensions.py
real-kernels: $(VENV)/.installed-for-benchmarks
	$(if $(DIRECTORIES),$(BIN)/python -m benchmarks.real_kernels $(DIRECTORIES) $(OPTIONS))
	$(if $(DIRECTORIES),$(BIN)/python -m benchmarks.real_references $(DIRECTORIES))
	$(if $(DIRECTORIES),$(BIN)/python -m benchmarks.real_specs $(DIRECTORIES))
	$(if $(EXTENSIONS),$(BIN)/python -m benchmarks.real_extensions $(EXTENSIONS) $(OPTIONS))
	$(if $(EXTENSIONS),$(BIN)/python -m benchmarks.real_extension_references $(EXTENSIONS))

# the rendered texts that tests/render/golden and tests/exports/golden hold, after a change that was meant
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

# nvcc from PyPI, where the machine has no CUDA toolkit
$(VENV)/.nvcc:
	@command -v nvcc >/dev/null || test -x "$${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" || $(PIP) --no-build-isolation -e '.[nvcc]'
	@touch $@
