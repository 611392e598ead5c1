"""``tkjit.require``: a server checks that no call of a recorded run would compile anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import tkjit

pytestmark = pytest.mark.compiles


@pytest.fixture
def used(session_cache, monkeypatch, tmp_path) -> Path:
    """The record of a call whose builds are in the cache."""
    path = tmp_path / "used.jsonl"
    monkeypatch.setenv("TKJIT_RECORD", str(path))
    x, y = torch.randn(5), torch.randn(5)
    tkjit.load("axpy")(x, y, 2.0)
    monkeypatch.delenv("TKJIT_RECORD")
    return path


def test_require_returns_if_the_cache_has_everything(used, monkeypatch):
    monkeypatch.setenv("TKJIT_JIT", "0")
    assert tkjit.require(used) is None


def test_missing_builds_are_listed_and_not_built(used, compiler, monkeypatch, tmp_path):
    unknown = json.loads(used.read_text()) | {"name": "no_such_kernel"}
    used.write_text(used.read_text() + json.dumps(unknown) + "\n")
    monkeypatch.setenv("TKJIT_CACHE", str(tmp_path / "empty"))
    with pytest.raises(tkjit.CacheError) as raised:
        tkjit.require(str(used))
    first, *lines, last = str(raised.value).splitlines()
    assert first == f"4 of the builds that {used} needs would be compiled at their first use:"
    assert lines[0].startswith("  no_such_kernel (T=float32) for cpu-") and "no kernel" in lines[0]
    assert [line.endswith(": not in the cache") for line in lines] == [False, True, True, True]
    assert "axpy" in lines[2] and "axpy" in lines[3]
    assert last == f"Build them ahead of time: python -m tkjit warmup --from-file {used}"
    assert compiler.compiled == []


@pytest.mark.parametrize(("text", "error"), [(None, "cannot read"), ("x\n", ":1 is not a line that TKJIT_RECORD")])
def test_invalid_record_is_rejected(text, error, tmp_path):
    if text is not None:
        (tmp_path / "used").write_text(text)
    with pytest.raises(tkjit.CacheError, match=error):
        tkjit.require(tmp_path / "used")
