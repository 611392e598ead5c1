"""Fixtures for all tests: the ban on compilation, caches, fresh processes, compilers, a GPU."""

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
from pathlib import Path
from typing import Any

import pytest
from support.caches import CALL, RIGHT, Compiler
from support.forking import Server

from tkjit.config import Settings
from tkjit.errors import ToolchainError
from tkjit.loader import Loader, loader_for
from tkjit.loader.common_headers import of_glue, of_launchers
from tkjit.loader.device_code import CUBIN
from tkjit.loader.simulator import SimulatorObjectPlan

TESTS = Path(__file__).parent
# fixtures that compile, or start processes that do
COMPILING = {"runtime", "operators", "filled", "fresh", "loader", "sass", "gpu"}

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # so a shell starts what runs in its background; tests of Ctrl-C need the handler, and their children inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--require-gpu", action="store_true", help="fail, and do not skip, where there is no GPU")
    parser.addoption("--device-compiler", choices=("nvcc", "nvrtc"), help="for all device code; TKJIT_COMPILER")
    parser.addoption("--update-golden", action="store_true", help="write what is rendered now to tests/render/golden")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first."""
    items.sort(key=lambda item: [item.get_closest_marker(name) is None for name in ("nvcc", "compiles")])


def may_compile(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("nvcc", "compiles", "gpu", "languages"))


@pytest.fixture(autouse=True)
def compiles_nothing(request: pytest.FixtureRequest) -> None:
    """Without a marker a test compiles nothing; its hundreds of small builds do not wait for a busy disk either."""
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
    """Texts name Debian's packages, whatever these tests run on."""
    monkeypatch.setattr("tkjit.system.install._os_release", lambda: "ID=debian\n")


# ---- caches


@pytest.fixture(scope="session", autouse=True)
def session_cache(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Path]:
    """One TKJIT_CACHE for all tests and their processes, so that the runtime (6 s) is compiled once."""
    root = tmp_path_factory.mktemp("tkjit_cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TKJIT_CACHE", str(root))
        patch.setenv("TKJIT_QUIET", "1")  # how long a build takes is another matter on each machine
        names = "CACHE_READONLY CACHE_SHARED CACHE_LIMIT CACHE_REMOTE COMPILER JIT KERNEL_PATH MODEL_ARCH RECORD"
        for name in [*names.split(), "SIM_NUMERICS"]:
            patch.delenv(f"TKJIT_{name}", raising=False)
        if compiler := request.config.getoption("--device-compiler"):
            patch.setenv("TKJIT_COMPILER", compiler)
        yield root


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for one test; the directory does not exist yet."""
    root = tmp_path / "cache"
    monkeypatch.setenv("TKJIT_CACHE", str(root))
    return root


@pytest.fixture(scope="session")
def runtime(session_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that holds what all kernels share; it is copied and not written to."""
    loader = loader_for(dataclasses.replace(Settings.from_environment(), cache_root=session_cache))
    assert loader.runtime
    loader.build_shared()
    target = loader.target("cpu")
    headers = of_glue(loader.env, loader.glue_flags().compiler), of_launchers(loader.env, target)
    plans = loader.runtime_plan, SimulatorObjectPlan(loader.env, target), *headers
    root = tmp_path_factory.mktemp("runtime") / "cache"
    # these alone: other tests may have built those of checkers, or of GPUs
    for entry in map(loader.find, plans):
        shutil.copytree(entry.directory, root / entry.directory.relative_to(session_cache))
    return root


@pytest.fixture
def cache_with_runtime(cache: Path, runtime: Path) -> Path:
    """A cache of this test's own that holds the runtime and nothing else."""
    return Path(shutil.copytree(runtime, cache))


@pytest.fixture(scope="session")
def operators(session_cache: Path) -> Callable[[Path], None]:
    """Puts the module of operators, which a warm-up builds too, into another cache."""
    assert loader_for(dataclasses.replace(Settings.from_environment(), cache_root=session_cache)).operators

    def copy(root: Path) -> None:
        for directory in session_cache.glob("v1/*/operators"):
            shutil.copytree(directory, root / directory.relative_to(session_cache))

    return copy


@pytest.fixture(scope="session")
def filled(fresh: Server, runtime: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that holds the runtime, and what one call of axpy needs. It is copied and not written to."""
    root = Path(shutil.copytree(runtime, tmp_path_factory.mktemp("filled") / "cache"))
    assert fresh.run(CALL, TKJIT_CACHE=str(root)) == RIGHT
    return root


@pytest.fixture
def warmed(fresh: Server, filled: Path, cache: Path, compiler: Compiler) -> Path:
    """A cache of this test's own, in which nothing is missing, and which a call has found unchanged."""
    root = Path(shutil.copytree(filled, cache))
    time.sleep(0.1)  # what was compared is noted once it is no longer quite new
    assert fresh.run(CALL) == RIGHT
    return root


# ---- processes


@pytest.fixture
def python() -> Callable[..., str]:
    """Runs a snippet in a fresh process with the test's environment and returns what it prints."""

    def run(code: str, *arguments: str | Path) -> str:
        command = [sys.executable, "-c", code, *map(str, arguments)]
        done = subprocess.run(command, env=os.environ, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            pytest.fail(f"the process ended with {done.returncode}\n{done.stdout}{done.stderr}", pytrace=False)
        return done.stdout

    return run


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Starts fresh processes."""
    server = Server(tmp_path_factory.mktemp("processes"))
    yield server
    server.close()


@pytest.fixture
def at_work() -> Iterator[Callable[..., subprocess.Popen]]:
    """Starts what stands for a compiler in a directory; it is ended with the test."""
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
    """Starts a snippet in a process of its own, which may import what stands for a compiler here."""
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
    """The C++ compiler, as CXX, behind a script that writes down what it compiles."""
    compiler = Compiler(tmp_path / "bin", monkeypatch)
    yield compiler
    compiler.release()  # whatever a test that failed has left waiting


@pytest.fixture(scope="session")
def loader() -> Loader:
    """The session's loader; without nvcc there is nothing to test here."""
    loader = loader_for(Settings.from_environment())
    try:
        loader.toolchain.nvcc  # noqa: B018
    except ToolchainError as error:
        pytest.fail(f"{error}")  # make test installs it
    return loader


@pytest.fixture(scope="session")
def sass() -> Any:
    """A function: a launcher's machine code as text. NVRTC's lies beside it too, as a file of its own."""
    from cuda.pathfinder import find_nvidia_binary_utility

    tool = find_nvidia_binary_utility("cuobjdump")
    assert tool is not None, "install nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm (make test does)"
    directory = str(Path(tool).parent)

    def disassemble(shared_object: Path) -> str:
        cubin = shared_object.with_name(CUBIN)
        command = [tool, "-sass", str(cubin if cubin.exists() else shared_object)]
        return subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": directory}).stdout

    return disassemble


_lost_device: list[str] = []  # by which test


@pytest.fixture(autouse=True)
def needs_a_gpu(request: pytest.FixtureRequest) -> Iterator[None]:
    """What is marked `gpu` runs on one, whether the test takes the device as an argument or not.

    Waits for the test's kernels, so that their error fails this test; those that follow say which it was.
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
    """The CUDA device to test on; without one the test is skipped, or fails with --require-gpu."""
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
    """What the random choices of a run begin with, shown where a test fails."""
    given = os.environ.get("TKJIT_TEST_SEED")
    return given or str(random.SystemRandom().randrange(10**6))


@pytest.fixture
def rng(seed: str, request: pytest.FixtureRequest) -> random.Random:
    """A test's own random choices: the same for the same seed, whatever other tests do."""
    print(f"random choices of TKJIT_TEST_SEED={seed}")
    return random.Random(f"{seed} {request.node.name}")
