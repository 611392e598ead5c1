"""Fixtures for the remote cache: a directory that serves as one, a key, and machines with separate local caches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.fake_builder import ABI, forget_leases
from support.remote_caches import write_key

from tkjit.cache import Cache
from tkjit.config import RemoteSettings


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return write_key(tmp_path / "key")


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    return tmp_path / "remote"


@pytest.fixture
def url(remote: Path) -> str:
    return f"file://{remote}"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Callable[..., Cache]]:
    """Opens the local cache of a machine. Machines with different names share only the remote cache."""
    opened: list[Cache] = []

    def make(settings: RemoteSettings, name: str = "") -> Cache:
        opened.append(Cache(tmp_path / "machines" / (name or str(len(opened))), ABI, remote=settings))
        return opened[-1]

    yield make
    for cache in opened:
        assert cache.remote is not None
        cache.remote.finish()
        forget_leases(cache)
