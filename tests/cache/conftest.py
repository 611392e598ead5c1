"""Fixtures for the cache: temporary caches, a header, threads, and a held lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.fake_builder import ABI, RECIPE, forget_leases, write
from support.lock_holders import hold_lock_as

from tkjit.cache import Cache, fingerprints, locks


@pytest.fixture
def header(tmp_path: Path) -> Path:
    path = tmp_path / "include/gl.h"
    write(path, "struct gl {};")
    return path


@pytest.fixture
def open_cache(tmp_path: Path) -> Iterator[Callable[..., Cache]]:
    """Opens a cache, as a process does at its start."""
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
    """Lets warm records be written for files that have just changed. A test that edits one waits for the clock."""
    monkeypatch.setattr(fingerprints, "SETTLED_NS", 0)


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    """Sets the umask for one test."""
    before = os.umask(0)
    yield os.umask
    os.umask(before)


class Threads:
    """Runs calls in parallel, and keeps their results and exceptions."""

    def __init__(self) -> None:
        self.results: list[object] = []
        self._threads: list[threading.Thread] = []

    def start(self, call) -> None:
        def run() -> None:
            try:
                self.results.append(call())
            except BaseException as error:
                self.results.append(error)

        self._threads.append(threading.Thread(target=run, daemon=True))
        self._threads[-1].start()

    @property
    def are_over(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def join(self) -> list[object]:
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), "it hangs"
        return self.results


@pytest.fixture
def threads():
    return Threads()


@pytest.fixture
def lock(entries) -> Path:
    return entries.directory(RECIPE) / locks.LOCK


@pytest.fixture
def hold(lock):
    """Holds the recipe's lock in the name of a given process."""
    held = []

    def take(*arguments, **options) -> int:
        held.append(hold_lock_as(lock, *arguments, **options))
        return held[-1]

    yield take
    for descriptor in held:
        os.close(descriptor)
