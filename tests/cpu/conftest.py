"""What the tests that compile for the CPU share: caches that hold the runtime, counted compilers, processes."""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.caches import CALL, RIGHT, Compiler
from support.forking import Server

from tkjit.config import Settings
from tkjit.loader import loader_for


@pytest.fixture(scope="session")
def runtime(session_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that holds what all kernels share, the runtime and the simulator; it is copied and not written to."""
    loader = loader_for(dataclasses.replace(Settings.from_environment(), cache_root=session_cache))
    assert loader.runtime and loader.simulator(loader.target("cpu"))
    root = tmp_path_factory.mktemp("runtime") / "cache"
    for shared in ("runtime", "simulator"):
        for directory in session_cache.glob(f"v1/*/{shared}"):
            # not those of checkers, which other tests may have built
            checkers = shutil.ignore_patterns("*-race-*", "*-memory-*")
            shutil.copytree(directory, root / directory.relative_to(session_cache), ignore=checkers)
    return root


@pytest.fixture
def seeded(cache: Path, runtime: Path) -> Path:
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


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Starts fresh processes."""
    server = Server(tmp_path_factory.mktemp("processes"))
    yield server
    server.close()


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Compiler]:
    """The C++ compiler, as CXX, behind a script that writes down what it compiles."""
    compiler = Compiler(tmp_path / "bin", monkeypatch)
    yield compiler
    compiler.release()  # whatever a test that failed has left waiting


@pytest.fixture(scope="session")
def seed() -> Iterator[str]:
    """What the random choices of a run begin with, shown where a test fails."""
    given = os.environ.get("TKJIT_TEST_SEED")
    return given or str(random.SystemRandom().randrange(10**6))


@pytest.fixture
def chance(seed: str, request: pytest.FixtureRequest) -> random.Random:
    """A test's own random choices: the same for the same seed, whatever other tests do."""
    print(f"random choices of TKJIT_TEST_SEED={seed}")
    return random.Random(f"{seed} {request.node.name}")
