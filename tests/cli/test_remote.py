"""``cache push`` and ``pull``: kernels that one machine compiled run on another that must not compile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.caches import CALL, RIGHT, entries
from support.remote_caches import statements, write_key

pytestmark = pytest.mark.compiles
NAMED = ["axpy", "--device", "cpu", "--types", "float32"]
REQUIRE = "import sys, tkjit; tkjit.require({!r})"


@pytest.fixture
def remote(tmp_path, monkeypatch) -> Path:
    """An empty remote cache that this machine may write to."""
    key = write_key(tmp_path / "key")
    monkeypatch.setenv("TKJIT_CACHE_REMOTE", f"file://{tmp_path / 'remote'}")
    monkeypatch.setenv("TKJIT_CACHE_REMOTE_KEY", str(key))
    monkeypatch.setenv("TKJIT_CACHE_REMOTE_TRUST", f"{key}.pub")
    return tmp_path / "remote"


@pytest.fixture
def pushed(remote, filled, fresh) -> Path:
    """The remote cache, with the entries that one call of axpy needs."""
    child = fresh.tkjit("cache", "push", "--json", TKJIT_CACHE=str(filled))
    assert json.loads(child.printed()) == {"pushed": {"moved": 4, "there": 0, "tuned": 0, "missing": [], "failed": []}}
    return remote


@pytest.fixture
def elsewhere(tmp_path, monkeypatch) -> Path:
    """Another machine, which may only read the remote cache and must not compile."""
    monkeypatch.delenv("TKJIT_CACHE_REMOTE_KEY")
    monkeypatch.setenv("TKJIT_JIT", "0")
    monkeypatch.setenv("TKJIT_CACHE", str(tmp_path / "elsewhere"))
    return tmp_path / "elsewhere"


@pytest.mark.slow
def test_a_call_fetches_what_it_needs(pushed, elsewhere, fresh):
    assert fresh.run(CALL) == RIGHT
    assert len(entries(elsewhere)) == 3
    assert not list(elsewhere.rglob("common_headers"))


@pytest.mark.slow
def test_pull_fetches_entries_ahead_of_calls(pushed, elsewhere, fresh, monkeypatch):
    child = fresh.tkjit("cache", "pull", *NAMED)
    assert child.printed() == "3 pulled, 0 already there, 0 missing or failed\n"
    monkeypatch.delenv("TKJIT_CACHE_REMOTE")
    assert fresh.run(CALL) == RIGHT


@pytest.mark.slow
def test_pull_reports_entries_that_the_server_lacks(pushed, elsewhere, fresh):
    child = fresh.tkjit("cache", "pull", "axpy", "--device", "cpu", "--types", "float32,float16", "--json")
    printed = json.loads(child.stdout)
    assert child.code == 1 and printed["pulled"]["moved"] == 3
    assert [what.startswith("axpy (T=float16) for cpu-") for what in printed["pulled"]["missing"]] == [True]


def test_require_and_pull_take_the_record_of_a_run(pushed, elsewhere, fresh, filled, tmp_path):
    used = tmp_path / "used.jsonl"
    assert fresh.run(CALL, TKJIT_CACHE=str(filled), TKJIT_RECORD=str(used)) == RIGHT
    assert fresh.run(REQUIRE.format(str(used))) == ""
    child = fresh.tkjit("cache", "pull", "--from-file", str(used))
    assert child.printed() == "0 pulled, 3 already there, 0 missing or failed\n"


def test_warmup_waits_for_its_uploads(remote, cache_with_runtime, operators, fresh):
    operators(cache_with_runtime)
    fresh.tkjit("warmup", *NAMED).printed()
    assert sorted(path.parents[1].name[:4] for path in statements(remote)) == ["cpu-", "glue"]


@pytest.mark.slow
def test_warmup_reports_failed_uploads(remote, cache_with_runtime, operators, fresh):
    operators(cache_with_runtime)
    remote.write_text("not a directory")
    child = fresh.tkjit("warmup", *NAMED)
    assert child.code == 1 and "have not reached the remote cache; run python -m tkjit cache push" in child.stderr


def test_push_without_a_remote_cache_is_an_error(fresh, monkeypatch):
    monkeypatch.delenv("TKJIT_CACHE_REMOTE", raising=False)
    child = fresh.tkjit("cache", "push")
    assert child.code == 1 and "set TKJIT_CACHE_REMOTE to its URL" in child.stderr


def test_error_for_a_missing_entry_names_the_remote_cache(remote, elsewhere, fresh):
    child = fresh.start(CALL)
    child.wait()
    assert child.code == 1 and f"is not in the cache ({elsewhere}, file://{remote}), and TKJIT_JIT=0" in child.stderr
