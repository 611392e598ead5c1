"""What the cache's tests share: caches that are closed again, a header, and processes that are ended again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.builders import ABI, forget_leases, write

from tkjit.cache import Cache, fingerprints

TESTS = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of small builds would wait for a disk that other programs keep busy."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def header(tmp_path: Path) -> Path:
    path = tmp_path / "include/gl.h"
    write(path, "struct gl {};")
    return path


@pytest.fixture
def open_cache(tmp_path: Path) -> Iterator[Callable[..., Cache]]:
    """Opens a cache, as a process does once."""
    opened: list[Cache] = []

    def make(root: Path | None = None, abi: str = ABI, **options) -> Cache:
        opened.append(Cache(root or tmp_path / "cache", abi, **options))
        return opened[-1]

    yield make
    for cache in opened:
        forget_leases(cache)


@pytest.fixture
def entries(open_cache: Callable[..., Cache]) -> Cache:
    return open_cache()


@pytest.fixture
def records_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notes are written of files that have just changed too; a test that edits one later waits for the clock."""
    monkeypatch.setattr(fingerprints, "SETTLED_NS", 0)


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


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen]]:
    """Starts a snippet in a process of its own, which may import what stands for a compiler here."""
    started: list[subprocess.Popen] = []

    def run(code: str, *arguments: object) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", f"from support.builders import *\nimport sys\n{code}", *map(str, arguments)],
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
