"""Fixtures for the tests of the registry."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def kernels_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory on TKJIT_KERNEL_PATH."""
    directory = tmp_path / "kernels"
    directory.mkdir()
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(directory))
    return directory
