"""Entries travel between machines through a remote cache, if their inputs match."""

from __future__ import annotations

import json
import multiprocessing
import os
import warnings
from dataclasses import replace

import pytest
from support.fake_builder import ABI, RECIPE, Builder, below, recipe_with_part, write
from support.remote_caches import objects, reader, statements, writer

from tkjit.cache import Cache
from tkjit.cache.remote.remote import Remote
from tkjit.errors import CacheError


def built(cache: Cache, *headers, recipe=RECIPE) -> tuple[Builder, object]:
    """Build on a machine, and wait until the entry is in the remote cache."""
    builder = Builder(*headers)
    entry = cache.build(recipe, builder)
    assert cache.remote is not None and cache.remote.finish(60) == 0
    return builder, entry


def test_another_machine_fetches_a_built_entry(machine, header, url, key):
    _, first = built(machine(writer(url, key)), header)
    builder, second = built(machine(reader(url, key)), header)
    assert builder.calls == 0
    assert first.directory != second.directory and first.directory.name == second.directory.name
    for path in first.directory.iterdir():
        assert (second.directory / path.name).read_bytes() == path.read_bytes()
    assert (second.module, second.shared_object_name) == ("tkjit_glue_0", "launcher.so")


def test_fetched_entry_behaves_like_any_other(machine, header, url, key):
    built(machine(writer(url, key)), header)
    cache = machine(reader(url, key), "here")
    _, entry = built(cache, header)
    assert machine(replace(reader(url, key), url="http://127.0.0.1:1"), "here").lookup(RECIPE) == entry
    assert below(cache.root, ".staging*") == [] and below(cache.root, ".packed") == []
    write(header, "struct gl { int edited; };")
    assert cache.lookup(RECIPE) is None


def test_fetch_builds_nothing(machine, header, url, key):
    cache = machine(reader(url, key))
    assert cache.fetch(RECIPE) is None
    built(machine(writer(url, key)), header)
    entry = cache.fetch(RECIPE)
    assert entry is not None and cache.lookup(RECIPE) == entry


@pytest.mark.slow
def test_entry_of_other_inputs_is_not_fetched(machine, header, url, key):
    built(machine(writer(url, key)), header)
    write(header, "struct gl { int edited; };")
    builder, _ = built(machine(writer(url, key)), header)
    assert builder.calls == 1
    for recipe in (
        replace(RECIPE, tools=(("cxx", "g++ 13"),)),
        recipe_with_part("flags", "-O2"),
        replace(RECIPE, arch="sm_80"),
        replace(RECIPE, name="other"),
    ):
        builder, _ = built(machine(reader(url, key)), header, recipe=recipe)
        assert builder.calls == 1, recipe


def test_file_that_may_hide_a_header_is_a_miss(machine, header, url, key, tmp_path):
    search = tmp_path / "first"
    search.mkdir()
    first = machine(writer(url, key))
    first.build(RECIPE, Builder(header, search=(search,)))
    assert first.remote.finish(60) == 0
    write(search / "gl.h", "struct gl {};")
    builder, _ = built(machine(reader(url, key)), header)
    assert builder.calls == 1


def test_only_keys_and_own_files_are_compared_without_compilers(machine, header, url, key):
    built(machine(writer(url, key)), header)
    header.unlink()
    builder, _ = built(machine(reader(url, key)), recipe=replace(RECIPE, tools=None))
    assert builder.calls == 0


def test_at_most_two_of_many_statements_are_read(machine, header, url, key, monkeypatch):
    texts = [f"struct gl {{ int v{number}; }};" for number in range(4)]
    for text in texts:
        write(header, text)
        built(machine(writer(url, key)), header)
    read = []
    statement = Remote._statement
    monkeypatch.setattr(Remote, "_statement", lambda *words: read.append(words[2]) or statement(*words))
    for text in texts:
        write(header, text)
        read.clear()
        builder, _ = built(machine(reader(url, key)), header)
        assert builder.calls == 0 and len(read) <= 2
    write(header, "struct gl { int unknown; };")
    assert built(machine(reader(url, key)), header)[0].calls == 1


def test_entry_that_is_useless_elsewhere_is_not_uploaded(machine, header, url, key, remote):
    def build_here(staging):
        product = Builder(header)(staging)
        return replace(product, facts={**product.facts, "stays_here": True})

    cache = machine(writer(url, key))
    entry = cache.build(RECIPE, build_here)
    assert cache.remote.finish(60) == 0 and statements(remote) == []
    assert cache.remote.push(entry.directory) is None


def test_reader_writes_nothing(machine, header, url, key, remote):
    _, entry = built(machine(reader(url, key)), header)
    assert not remote.exists()
    with pytest.raises(CacheError, match=r"cannot write to .*: set TKJIT_CACHE_REMOTE_KEY"):
        machine(reader(url, key)).remote.push(entry.directory)


@pytest.mark.parametrize("gone", ["*.z", "index.json", "*[0-9a-f].json"])
def test_push_restores_lost_objects(machine, header, url, key, remote, gone):
    cache = machine(writer(url, key))
    _, entry = built(cache, header)
    (path,) = remote.rglob(gone)
    content = path.read_bytes()
    path.unlink()
    assert cache.remote.push(entry.directory) is (gone != "index.json")
    assert path.read_bytes() == content


def test_push_writes_missing_entries(machine, header, url, key, remote):
    _, entry = built(machine(reader(url, key)), header)
    pushing = machine(writer(url, key)).remote
    assert pushing.push(entry.directory) is True and pushing.push(entry.directory) is False
    assert len(statements(remote)) == len(objects(remote)) == 1
    assert built(machine(reader(url, key)), header)[0].calls == 0


def build_with_compiler(root, url, key, header, number):
    cache = Cache(root / f"cache-{number}", ABI, remote=writer(url, key))
    cache.build(replace(RECIPE, tools=(("cxx", f"g++ {number}"),)), builder := Builder(header))
    os._exit(cache.remote.finish(60) + builder.calls - 1)


@pytest.mark.slow
def test_concurrent_writers_lose_nothing(tmp_path, header, url, key, remote):
    context = multiprocessing.get_context("fork")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forking pytest, which has threads
        arguments = [(tmp_path, url, key, header, number) for number in range(8)]
        writers = [context.Process(target=build_with_compiler, args=values) for values in arguments]
        for process in writers:
            process.start()
    for process in writers:
        process.join()
        assert process.exitcode == 0
    (index,) = remote.rglob("index.json")
    assert len(statements(remote)) == 8
    assert json.loads(index.read_text()) == [path.name for path in statements(remote)]
    assert below(remote, "*.new-*") == []


def test_forked_child_starts_its_own_transfer_process(machine, header, url, key):
    built(machine(writer(url, key)), header)
    cache = machine(reader(url, key))
    assert cache.fetch(RECIPE) is not None  # starts the parent's transfer process
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        other = Cache(cache.root.with_name("child"), ABI, remote=reader(url, key))
        other.remote._reader = cache.remote._reader
        os._exit(0 if other.fetch(RECIPE) is not None else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert cache.fetch(replace(RECIPE, name="other")) is None  # the parent's process still answers


def test_transfer_process_is_restarted_after_it_ended(machine, header, url, key):
    built(machine(writer(url, key)), header)
    cache = machine(reader(url, key))
    assert cache.fetch(replace(RECIPE, name="other")) is None
    cache.remote._reader._process.kill()
    cache.remote._reader._process.wait()
    assert cache.fetch(RECIPE) is not None
