"""The configurations that tuning chose travel through a remote cache."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.define import define
from support.remote_caches import reader, writer

from tkjit.cache import Cache
from tkjit.errors import CacheError, TkjitWarning
from tkjit.loader.tuned import Choice, Tuned
from tkjit.spec import Variant

SPEC = define(
    "__global__ void f(Globals g) { g.x[0] = STEP; }",
    '(x: InOut[Tensor, "float32", "N"])',
    entry="f",
    grid=1,
    block=1,
    tune={"STEP": (1, 2, 3)},
).specs[0]
CHOICE = Choice("f", "", "a GPU", "sm_90a", {"STEP": 2}, {"STEP=2": 1e-6})


def found(cache: Cache) -> Choice | None:
    return Tuned(cache).find(SPEC, Variant(), "sm_90a", "a GPU")


def store(cache: Cache, choice: Choice = CHOICE) -> None:
    Tuned(cache).store(SPEC, choice)
    assert cache.remote is not None and cache.remote.finish(60) == 0


def test_a_machine_without_a_choice_fetches_it(machine, url, key):
    store(machine(writer(url, key)))
    cache = machine(reader(url, key), "here")
    assert found(cache) == CHOICE
    assert found(machine(replace(reader(url, key), url="http://127.0.0.1:1"), "here")) == CHOICE  # kept locally


def test_the_server_is_asked_again_only_on_request(machine, url, key):
    cache = machine(reader(url, key), "here")
    assert found(cache) is None
    store(machine(writer(url, key)))
    assert found(cache) is None
    again = Tuned(cache)
    again.asks_again = True
    assert again.find(SPEC, Variant(), "sm_90a", "a GPU") == CHOICE


def test_a_choice_of_this_machine_is_kept(machine, url, key):
    store(machine(writer(url, key)))
    cache = machine(writer(url, key))
    own = replace(CHOICE, configuration={"STEP": 3})
    store(cache, own)
    assert found(cache) == own


def test_all_choices_can_be_pushed_and_cleared(machine, url, key):
    alone = machine(replace(reader(url, key), url="http://127.0.0.1:1"), "here")
    with pytest.warns(TkjitWarning):
        assert found(alone) is None  # the server does not answer
    Tuned(alone).store(SPEC, CHOICE)
    tuned = Tuned(machine(writer(url, key), "here"))
    assert (tuned.push(["other"]), tuned.push(["f"]), tuned.push()) == (0, 1, 1)
    assert found(machine(reader(url, key))) == CHOICE
    assert (tuned.clear(["other"]), tuned.clear()) == (0, 1)
    assert not tuned.directory(SPEC).exists()


def test_a_reader_cannot_push(machine, url, key):
    cache = machine(reader(url, key))
    Tuned(cache).store(SPEC, CHOICE)
    with pytest.raises(CacheError, match="TKJIT_CACHE_REMOTE_KEY"):
        Tuned(cache).push()


def test_a_value_with_another_name_or_signature_is_rejected(machine, url, key, remote):
    store(machine(writer(url, key)))
    (path,) = remote.glob("v1/tuned/*/*[0-9a-f].json")
    path.rename(path.with_name(f"{16 * '0'}.json"))
    (path.parent / "index.json").write_text(json.dumps([f"{16 * '0'}.json"]))
    with pytest.warns(TkjitWarning, match="not a value of this name"):
        assert found(machine(reader(url, key))) is None
    moved = path.with_name(f"{16 * '0'}.json")
    moved.write_text(moved.read_text().replace('"STEP": 2', '"STEP": 3'))
    with pytest.warns(TkjitWarning, match="the signature of .* is wrong"):
        assert found(machine(reader(url, key))) is None
