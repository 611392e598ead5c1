"""Fixtures for all tests: caches, processes, compilers and a GPU, and a ban on compilation in unmarked tests."""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.caches import CALL, RIGHT, Compiler
from support.forking import Server

from tkjit.config import Settings
from tkjit.errors import ToolchainError
from tkjit.loader import Loader, loader_for
from tkjit.loader.common_headers import of_glue, of_launchers
from tkjit.loader.listing import sass_of
from tkjit.loader.simulator import SimulatorObjectPlan

TESTS = Path(__file__).parent
# fixtures that compile something themselves or in a child process
COMPILING = {"runtime", "operators", "filled", "fresh", "loader", "sass", "gpu"}

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell starts background jobs with SIGINT ignored, and child processes inherit that. Tests of Ctrl-C need
    # Python's default handler, both here and in their children.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--require-gpu", action="store_true", help="fail, and do not skip, where there is no GPU")
    parser.addoption("--device-compiler", choices=("nvcc", "nvrtc"), help="for all device code; TKJIT_COMPILER")
    parser.addoption("--update-golden", action="store_true", help="write what is rendered now to tests/render/golden")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slowest tests first, so that parallel workers finish at about the same time.

    Tests that are marked ``nvcc`` come first, and those that are marked ``compiles`` second.
    """
    items.sort(key=lambda item: [item.get_closest_marker(name) is None for name in ("nvcc", "compiles")])


def may_compile(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("nvcc", "compiles", "gpu", "languages"))


@pytest.fixture(autouse=True)
def compiles_nothing(request: pytest.FixtureRequest) -> None:
    """Fails a test that compiles something without having a marker for it.

    In tests without such a marker, ``os.fsync`` does nothing, so that their hundreds of fake builds do not wait for a
    busy disk.
    """
    if may_compile(request.node):
        return
    if used := COMPILING.intersection(request.fixturenames):
        pytest.fail(f"the fixtures {', '.join(sorted(used))} compile; mark the module `compiles`", pytrace=False)

    def refuse(plan: Any, settings: Settings) -> None:
        pytest.fail(f"{plan.what} would be compiled; mark the module `compiles`")

    monkeypatch = request.getfixturevalue("monkeypatch")
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr("tkjit.loader.loader.check_may_compile", refuse)


@pytest.fixture(autouse=True)
def on_debian(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes tkjit suggest Debian's packages in its messages, whatever the distribution of this machine."""
    monkeypatch.setattr("tkjit.system.install._os_release", lambda: "ID=debian\n")


# ---- caches


@pytest.fixture(scope="session", autouse=True)
def session_cache(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Sets TKJIT_CACHE to one cache for all tests, workers and processes, so that shared modules are compiled once.

    Also unsets the variables of other settings, because the user's environment must not affect the tests.
    """
    base = tmp_path_factory.getbasetemp()
    # the temporary directories of pytest-xdist's workers have a common parent
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "tkjit_cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TKJIT_CACHE", str(root))
        patch.setenv("TKJIT_QUIET", "1")  # progress is only printed for slow builds, so it depends on the machine
        names = "CACHE_READONLY CACHE_SHARED CACHE_LIMIT CACHE_REMOTE COMPILER JIT KERNEL_PATH MODEL_ARCH RECORD"
        for name in [*names.split(), "SIM_NUMERICS"]:
            patch.delenv(f"TKJIT_{name}", raising=False)
        if compiler := request.config.getoption("--device-compiler"):
            patch.setenv("TKJIT_COMPILER", compiler)
        yield root


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sets TKJIT_CACHE to an empty cache for one test, and returns its directory, which does not exist yet."""
    root = tmp_path / "cache"
    monkeypatch.setenv("TKJIT_CACHE", str(root))
    return root


@pytest.fixture(scope="session")
def runtime(session_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a cache that contains only the entries that all kernels share. Tests copy it and never write to it."""
    loader = loader_for(dataclasses.replace(Settings.from_environment(), cache_root=session_cache))
    assert loader.runtime
    loader.build_shared()
    target = loader.target("cpu")
    headers = of_glue(loader.env, loader.glue_flags().compiler), of_launchers(loader.env, target)
    plans = loader.runtime_plan, SimulatorObjectPlan(loader.env, target), *headers
    root = tmp_path_factory.mktemp("runtime") / "cache"
    # copied one by one, because other tests may have built other entries, such as those of checkers or for GPUs
    for entry in map(loader.find, plans):
        shutil.copytree(entry.directory, root / entry.directory.relative_to(session_cache))
    return root


@pytest.fixture
def cache_with_runtime(cache: Path, runtime: Path) -> Path:
    """Sets TKJIT_CACHE to a copy of the cache ``runtime`` for one test, and returns its directory."""
    return Path(shutil.copytree(runtime, cache))


@pytest.fixture(scope="session")
def operators(session_cache: Path) -> Callable[[Path], None]:
    """Returns a function that copies the module of operators into another cache, because a warm-up also builds it."""
    assert loader_for(dataclasses.replace(Settings.from_environment(), cache_root=session_cache)).operators

    def copy(root: Path) -> None:
        for directory in session_cache.glob("v1/*/operators"):
            shutil.copytree(directory, root / directory.relative_to(session_cache))

    return copy


@pytest.fixture(scope="session")
def filled(fresh: Server, runtime: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a cache with the runtime and all entries for one call of axpy. Tests copy it and never write to it."""
    root = Path(shutil.copytree(runtime, tmp_path_factory.mktemp("filled") / "cache"))
    assert fresh.run(CALL, TKJIT_CACHE=str(root)) == RIGHT
    return root


@pytest.fixture
def warmed(fresh: Server, filled: Path, cache: Path, compiler: Compiler) -> Path:
    """Sets TKJIT_CACHE to a copy of the cache ``filled`` for one test, in which a call has written warm records."""
    root = Path(shutil.copytree(filled, cache))
    time.sleep(0.1)  # no warm record is written while an input file is younger than 50 ms
    assert fresh.run(CALL) == RIGHT
    return root


# ---- processes


@pytest.fixture
def python() -> Callable[..., str]:
    """Returns a function that runs a snippet in a fresh process with the test's environment, and returns its output.

    If the process fails, the test fails.
    """

    def run(code: str, *arguments: str | Path) -> str:
        command = [sys.executable, "-c", code, *map(str, arguments)]
        done = subprocess.run(command, env=os.environ, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            pytest.fail(f"the process ended with {done.returncode}\n{done.stdout}{done.stderr}", pytrace=False)
        return done.stdout

    return run


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Returns a server that starts fresh processes quickly, with torch and most of tkjit already imported."""
    server = Server(tmp_path_factory.mktemp("processes"))
    yield server
    server.close()


@pytest.fixture
def at_work() -> Iterator[Callable[..., subprocess.Popen]]:
    """Returns a function that starts a fake compiler, by default ``sleep 60``, in a directory.

    The process is killed after the test.
    """
    started: list[subprocess.Popen] = []

    def run(directory: Path, *command: str) -> subprocess.Popen:
        started.append(subprocess.Popen(command or ("sleep", "60"), cwd=directory))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait()


IMPORTS = "from support.fake_builder import *; from support.lock_holders import *; from support.waiting import *"


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen]]:
    """Returns a function that starts a snippet in a new process, with the helpers of ``IMPORTS`` already imported.

    The process is killed after the test.
    """
    started: list[subprocess.Popen] = []

    def run(code: str, *arguments: object) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", f"{IMPORTS}\nimport sys\n{code}", *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


# ---- compilers and GPUs


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Compiler]:
    """Sets CXX to a wrapper of the C++ compiler that logs its compilations and can delay them."""
    compiler = Compiler(tmp_path / "bin", monkeypatch)
    yield compiler
    compiler.release()  # a failed test may have left compilations waiting


@pytest.fixture(scope="session")
def loader() -> Loader:
    """Returns the session's loader. The test fails if nvcc is missing."""
    loader = loader_for(Settings.from_environment())
    try:
        loader.toolchain.nvcc  # noqa: B018
    except ToolchainError as error:
        pytest.fail(f"{error}")  # `make test` installs nvcc, so its absence is an error
    return loader


@pytest.fixture(scope="session")
def sass() -> Callable[[Path], str]:
    """Returns a function that disassembles a launcher's machine code."""
    return partial(sass_of, loader_for(Settings.from_environment()))


_lost_device: list[str] = []  # the ID of the test whose kernels made the GPU unusable for this process, if any


@pytest.fixture(autouse=True)
def needs_a_gpu(request: pytest.FixtureRequest) -> Iterator[None]:
    """Applies the fixture ``gpu`` to every test with the marker ``gpu``, even if the test does not request the fixture.

    Waits for the test's kernels, so that an error in them fails this test. Such an error makes the GPU unusable for the
    process, so later tests fail at once with a message that names this test.
    """
    if not request.node.get_closest_marker("gpu"):
        yield
        return
    request.getfixturevalue("gpu")
    if _lost_device:
        pytest.fail(f"the device is lost to this process since {_lost_device[0]}", pytrace=False)
    yield
    import torch

    try:
        torch.cuda.synchronize()
    except RuntimeError:
        _lost_device.append(request.node.nodeid)
        raise


@pytest.fixture(scope="session")
def gpu(request: pytest.FixtureRequest) -> str:
    """Returns the CUDA device to test on. Without a GPU, the test is skipped, or fails with --require-gpu."""
    import torch

    if torch.cuda.is_available():
        return "cuda:0"
    if torch.version.cuda is None:
        reason = f"torch {torch.__version__} is a CPU build; install a CUDA build of it on a machine with an NVIDIA GPU"
    else:
        reason = "torch finds no CUDA device; run on a machine with an NVIDIA GPU whose driver nvidia-smi lists"
    if request.config.getoption("--require-gpu"):
        pytest.fail(f"--require-gpu: {reason}", pytrace=False)
    pytest.skip(reason)


# ---- random choices


@pytest.fixture(scope="session")
def seed() -> str:
    """Returns the seed of all random choices of the run: TKJIT_TEST_SEED, or a random number."""
    chosen = os.environ.get("TKJIT_TEST_SEED")
    return chosen or str(random.SystemRandom().randrange(10**6))


@pytest.fixture
def rng(seed: str, request: pytest.FixtureRequest) -> random.Random:
    """Returns a random generator for one test, which depends only on the seed and on the test's name.

    If the test fails, pytest shows the seed that is printed here.
    """
    print(f"random choices of TKJIT_TEST_SEED={seed}")
    return random.Random(f"{seed} {request.node.name}")
