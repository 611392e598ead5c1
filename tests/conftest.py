"""What all tests share: one cache for the session, an empty one on request, fresh processes, a GPU if there is one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--require-gpu", action="store_true", help="fail, and do not skip, where there is no GPU")
    parser.addoption("--update-golden", action="store_true", help="write what is rendered now to tests/golden")


@pytest.fixture(scope="session", autouse=True)
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One TKJIT_CACHE for all tests and their processes, so that the runtime (6 s) is compiled once."""
    root = tmp_path_factory.mktemp("tkjit_cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TKJIT_CACHE", str(root))
        for name in "KERNEL_PATH CACHE_READONLY CACHE_SHARED CACHE_LIMIT JIT RECORD".split():
            patch.delenv(f"TKJIT_{name}", raising=False)
        yield root


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for one test; the directory does not exist yet."""
    root = tmp_path / "cache"
    monkeypatch.setenv("TKJIT_CACHE", str(root))
    return root


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
