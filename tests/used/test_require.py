"""``tkjit.require``: a server's question whether anything that it will call would be compiled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import tkjit

pytestmark = pytest.mark.compiles


@pytest.fixture
def used(session_cache, monkeypatch, tmp_path) -> Path:
    """What a call has recorded; it is in the cache."""
    path = tmp_path / "used.jsonl"
    monkeypatch.setenv("TKJIT_RECORD", str(path))
    x, y = torch.randn(5), torch.randn(5)
    tkjit.load("axpy")(x, y, 2.0)
    monkeypatch.delenv("TKJIT_RECORD")
    return path


def test_what_is_in_the_cache_is_enough(used, monkeypatch):
    monkeypatch.setenv("TKJIT_JIT", "0")
    assert tkjit.require(used) is None


def test_all_that_is_missing_is_listed_and_nothing_is_built(used, compiler, monkeypatch, tmp_path):
    unknown = json.loads(used.read_text()) | {"name": "no_such_kernel"}
    used.write_text(used.read_text() + json.dumps(unknown) + "\n")
    monkeypatch.setenv("TKJIT_CACHE", str(tmp_path / "empty"))
    with pytest.raises(tkjit.CacheError) as raised:
        tkjit.require(str(used))
    first, *lines, last = str(raised.value).splitlines()
    assert first == f"4 of what {used} lists would be compiled at the first use:"
    assert lines[0].startswith("  no_such_kernel (T=float32) for cpu-") and "no kernel" in lines[0]
    assert [line.endswith(": not in the cache") for line in lines] == [False, True, True, True]
    assert "axpy" in lines[2] and "axpy" in lines[3]
    assert last == f"Build it: python -m tkjit warmup --from-file {used}"
    assert compiler.compiled == []


@pytest.mark.parametrize(("text", "said"), [(None, "cannot read"), ("x\n", ":1 is not a line that TKJIT_RECORD")])
def test_what_is_no_record_is_refused(text, said, tmp_path):
    if text is not None:
        (tmp_path / "used").write_text(text)
    with pytest.raises(tkjit.CacheError, match=said):
        tkjit.require(tmp_path / "used")
