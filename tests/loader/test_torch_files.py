"""PyTorch on disk: a build that was replaced causes an error and has a new identity."""

from __future__ import annotations

from pathlib import Path

import pytest

from tkjit import ToolchainError
from tkjit.loader.torch_files import check_not_replaced, torch_files


@pytest.fixture
def torch(tmp_path) -> Path:
    (tmp_path / "torch/lib").mkdir(parents=True)
    (tmp_path / "torch/version.py").write_text("from typing import Optional\n__version__ = '2.13.0+cpu'\n")
    (tmp_path / "torch/lib/libc10.so").write_bytes(b"\x7fELF")
    return tmp_path / "torch"


def test_the_loaded_torch_is_accepted(torch):
    check_not_replaced(torch, "2.13.0+cpu")
    assert torch_files(torch) == (torch / "version.py", torch / "lib/libc10.so")


def test_another_version_on_disk_is_rejected(torch):
    with pytest.raises(
        ToolchainError, match=r"torch 2\.12\.0 is loaded, but .* has torch 2\.13\.0\+cpu: .*restart Python"
    ):
        check_not_replaced(torch, "2.12.0")


def test_a_deleted_library_that_is_still_mapped_is_rejected(torch, monkeypatch):
    maps = b"7f00-7f01 r-xp 00000000 fe:00 7  /venv/torch/lib/libc10.so (deleted)\n"
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: maps if str(path) == "/proc/self/maps" else read(path))
    with pytest.raises(ToolchainError, match=r"torch 2\.13\.0\+cpu is loaded, but .* no longer has its files"):
        check_not_replaced(torch, "2.13.0+cpu")


@pytest.mark.parametrize("text", ["", "__version__ = version()\n", "\xff"])
def test_an_unreadable_version_is_ignored(torch, text):
    (torch / "version.py").write_text(text, encoding="latin-1")
    check_not_replaced(torch, "2.13.0+cpu")
    (torch / "version.py").unlink()
    check_not_replaced(torch, "2.13.0+cpu")
    assert torch_files(torch) == (torch / "lib/libc10.so",)
