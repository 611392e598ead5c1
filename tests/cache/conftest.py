"""What the cache's tests share: caches that are closed again, and a header."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.builders import ABI, forget_leases, write

from tkjit.cache import Cache, fingerprints


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
