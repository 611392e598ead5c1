"""Eviction: the least recently used entries are removed first, and entries in use are kept."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from support.damage import flip_byte
from support.fake_builder import (
    ABI,
    RECIPE,
    Builder,
    below,
    forget_leases,
    loader_lookup,
    machine_code,
    recipe_with_part,
    records_of,
)
from support.lock_holders import ended_process, hold_lock_as
from support.sampling import sample
from support.waiting import wait_until

from tkjit.cache import Cache, Entry, building, eviction, leases, locks
from tkjit.cache.directory import USED_S
from tkjit.cache.eviction import clear, in_use, prune
from tkjit.cache.listing import last_build_s, leftovers, list_entries, size_bytes

RECIPES = [recipe_with_part("flags", f"-O{number}") for number in range(4)]


@pytest.fixture
def built(entries, header) -> list[Entry]:
    """Four entries of processes that have ended; the first is the least recently used."""
    made = [entries.build(recipe, Builder(header)) for recipe in RECIPES]
    for hours, entry in zip((8, 7, 6, 5), made, strict=True):
        was_used(entry, hours)
    forget_leases(entries)
    return made


def was_used(entry: Entry, hours: float) -> None:
    then = time.time() - hours * 3600
    os.utime(entry.directory, (then, then))


def size(cache: Cache) -> int:
    return sum(entry.size_bytes for entry in list_entries(cache.root)) + sum(map(size_bytes, leftovers(cache.root)))


def directories(found) -> list[Path]:
    return [entry.directory for entry in found]


# ---- listing


def test_list_entries(entries, built):
    found = list_entries(entries.root)
    assert sorted(directories(found)) == sorted(entry.directory for entry in built)
    (listed,) = [listed for listed in found if listed.directory == built[0].directory]
    assert (listed.abi, listed.arch, listed.name) == ("cpython-311", "sm_90a", "gemm")
    assert listed.manifest["key"]["flags"] == "-O0"
    assert listed.used == pytest.approx(time.time() - 8 * 3600, abs=60)


def test_sizes_are_allocated_disk_blocks(entries, built):
    files = [path for path in built[0].directory.iterdir() if path.is_file()]
    (one,) = [one for one in list_entries(entries.root) if one.directory == built[0].directory]
    assert one.size_bytes == sum(path.stat().st_blocks for path in files) * 512
    before = one.size_bytes
    built[0].shared_object.write_bytes(os.urandom(1 << 20))
    assert size_bytes(built[0].directory) >= before + (1 << 20) - 4096


def test_the_latest_build_of_an_item_gives_the_estimate_for_the_next(entries, header):
    assert last_build_s(entries.root, RECIPES[0], "gemm for sm_90a") is None
    for recipe, what, seconds in zip(
        RECIPES, ("gemm for sm_90a", "gemm for sm_90a", "other"), (8.5, 4.5, 1), strict=False
    ):
        entries.build(recipe, Builder(header, facts={"what": what, "seconds": seconds}))
        time.sleep(0.01)
    assert last_build_s(entries.root, RECIPES[3], "gemm for sm_90a") == 4.5


def test_empty_cache_has_nothing_to_list_or_remove(entries):
    assert list_entries(entries.root) == leftovers(entries.root) == prune(entries, 0) == clear(entries) == []
    assert list(in_use(entries)) == []


# ---- pruning


def test_least_recently_used_entries_are_removed_first(entries, built):
    limit = size(entries) - 1
    assert directories(prune(entries, limit)) == [built[0].directory]
    assert size(entries) <= limit and not built[0].directory.exists()
    assert prune(entries, limit) == []
    assert directories(prune(entries, size(entries) // 2)) == [built[1].directory, built[2].directory]
    assert entries.lookup(RECIPES[3]) == built[3]


def test_recent_use_keeps_an_entry(entries, built):
    assert entries.lookup(RECIPES[0]) == built[0]
    forget_leases(entries)
    assert directories(prune(entries, size(entries) - 1)) == [built[1].directory]


def test_leftovers_are_removed_before_entries(entries, built):
    dead, this = ended_process(), locks.this_process()
    place = entries.directory(RECIPES[0])
    living = place / f"{building.STAGING}{this.machine}-{this.pid}-{this.started}-x"
    left = [
        place / name
        for name in (
            ".failed",
            f"{building.BROKEN}x",
            f"{eviction.EVICTED}x",
            f"{building.STAGING}{dead.machine}-{dead.pid}-{dead.started}-x",
        )
    ]
    for directory in (*left, living):
        directory.mkdir()
        (directory / "file").write_bytes(bytes(1 << 16))
    assert leftovers(entries.root) == sorted(left)
    assert prune(entries, size(entries)) == [] and all(path.exists() for path in left)
    assert prune(entries, size(entries) - 1) == []
    assert not any(path.exists() for path in left) and living.exists()
    assert len(list_entries(entries.root)) == 4


def test_compiler_in_a_leftover_is_ended(entries, built, at_work):
    dead = ended_process()
    staging = built[0].directory.with_name(f"{building.STAGING}{dead.machine}-{dead.pid}-{dead.started}-x")
    staging.mkdir()
    compiler = at_work(staging)
    clear(entries)
    assert compiler.wait(10) == -signal.SIGKILL


def test_damaged_entries_are_evicted(entries, built):
    flip_byte(built[0].directory / "manifest.json")
    (built[1].directory / "manifest.json").unlink()
    assert len(prune(entries, 0)) == 4 and list_entries(entries.root) == []


def test_entries_of_other_pythons_are_evicted(entries, built, open_cache):
    other = open_cache(abi="cpython-312")
    assert len(prune(other, 0)) == 4


def test_entry_that_cannot_be_moved_is_kept(entries, built, monkeypatch):
    rename = Path.rename

    def refuse(path, target):
        if path == built[0].directory:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    assert directories(prune(entries, size(entries) - 1)) == [built[1].directory]
    assert built[0].directory.exists()


def test_cache_stays_within_its_limit_after_each_build(entries, built, header, open_cache):
    limit = size(entries)
    cache = open_cache(limit_bytes=limit)
    entry = cache.build(recipe_with_part("flags", "-O9"), Builder(header))
    assert size(cache) <= limit
    assert not built[0].directory.exists() and cache.lookup(recipe_with_part("flags", "-O9")) == entry


def test_nothing_is_evicted_without_a_limit(entries, built, header, monkeypatch):
    monkeypatch.setattr(eviction, "prune", lambda cache, limit: pytest.fail("it evicts"))
    entries.build(RECIPE, Builder(header))


# ---- entries in use

USER = """
cache = Cache(Path(sys.argv[1]), ABI)
assert cache.lookup(recipe_with_part("flags", "-O0")) is not None
print("ready", flush=True)
sys.stdin.read()
"""
USER_THAT_FORKS = USER.replace("sys.stdin.read()", "os.fork() or sys.stdin.read()")


def test_entry_used_by_another_process_is_kept_until_it_ends(entries, built, start):
    process = start(USER, entries.root)
    assert process.stdout.readline() == "ready\n"
    assert directories(in_use(entries)) == [built[0].directory]
    assert sorted(directories(prune(entries, 0))) == sorted(entry.directory for entry in built[1:])
    assert clear(entries) == []
    assert built[0].shared_object.is_file()
    process.kill()
    process.wait()
    assert directories(prune(entries, 0)) == [built[0].directory]


def test_forked_child_keeps_its_parents_leases(entries, built, start):
    process = start(USER_THAT_FORKS, entries.root)
    assert process.wait(20) == 0
    assert directories(in_use(entries)) == [built[0].directory]
    process.stdin.close()
    wait_until(lambda: not list(in_use(entries)), what="the child has ended")


def test_entry_used_by_this_process_is_kept(entries, built, header, open_cache):
    assert entries.lookup(RECIPES[1]) == built[1]
    assert directories(in_use(entries)) == [built[1].directory]
    assert built[1].directory not in directories(prune(entries, 0))
    fresh = entries.build(RECIPES[2], Builder(header))
    assert clear(open_cache()) == []  # another cache of the same process
    assert sorted(directories(in_use(entries))) == sorted([built[1].directory, fresh.directory])


def test_entry_found_by_a_warm_record_is_in_use(entries, built, records_at_once):
    assert loader_lookup(entries, RECIPES[0]) == built[0]
    forget_leases(entries)
    assert loader_lookup(entries, RECIPES[0]) == built[0]
    assert directories(in_use(entries)) == [built[0].directory]


def test_variants_with_the_same_headers_have_separate_leases(entries, built):
    """Such variants have the same ``deps_key``."""
    assert len({entry.directory.name for entry in built}) == 1
    assert entries.lookup(RECIPES[0]) == built[0]
    assert directories(in_use(entries)) == [built[0].directory]


def test_all_leases_of_a_process_share_one_descriptor(entries, built):
    for recipe in RECIPES:
        entries.lookup(recipe)
    descriptor = entries.leases._descriptor
    assert Path(f"/proc/self/fd/{descriptor}").readlink() == entries.root / "v1" / leases.FILE
    assert len(list(in_use(entries))) == 4


@pytest.mark.parametrize("idle, evicted", [(eviction.IDLE_S - 60, 0), (eviction.IDLE_S + 60, 1)])
def test_only_old_entries_are_evicted_without_locks(entries, built, monkeypatch, idle, evicted):
    def refuse(*arguments):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(leases.fcntl, "fcntl", refuse)
    was_used(built[0], idle / 3600)
    assert entries.lookup(RECIPES[3]) == built[3]  # lookups still work
    assert directories(prune(entries, 0)) == [built[0].directory][:evicted]


# ---- the time of the last use


@pytest.mark.parametrize("hours, recorded", [(0.9, False), (1.1, True)])
def test_last_use_is_recorded_once_an_hour(entries, built, hours, recorded):
    was_used(built[0], hours)
    before = built[0].directory.stat().st_mtime
    assert entries.lookup(RECIPES[0]) == built[0]
    after = built[0].directory.stat().st_mtime
    assert after == (pytest.approx(time.time(), abs=60) if recorded else before)
    assert USED_S == 3600


def test_lookup_works_if_the_last_use_cannot_be_recorded(entries, built, monkeypatch):
    def refuse(*arguments, **options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "utime", refuse)
    assert entries.lookup(RECIPES[0]) == built[0]


# ---- clearing


def test_clearing_removes_everything_except_entries_in_use(entries, built, records_at_once):
    assert loader_lookup(entries, RECIPES[0]) == built[0]
    (entries.directory(RECIPES[1]) / ".failed").mkdir()
    assert len(clear(entries)) == 3
    assert directories(list_entries(entries.root)) == [built[0].directory]
    assert below(entries.root, "gemm-*") == [built[0].directory.parent.name]
    assert records_of(entries) == []
    forget_leases(entries)
    assert len(clear(entries)) == 1
    assert below(entries.root, "gemm-*") == below(entries.root, ".lock*") == []


def test_clearing_selected_entries(entries, built):
    removed = clear(entries, lambda one: one.manifest["key"]["flags"] == "-O2")
    assert directories(removed) == [built[2].directory]
    assert len(list_entries(entries.root)) == 3


def test_clearing_keeps_the_lock_of_a_builder(entries, built):
    place = entries.directory(RECIPE)
    descriptor = hold_lock_as(place / locks.LOCK)
    clear(entries)
    assert (place / locks.LOCK).exists()
    os.close(descriptor)
    clear(entries)
    assert not place.exists()


@pytest.mark.parametrize("clearers", sample([1, 3], "3"))
def test_clearing_and_building_concurrently_both_succeed(open_cache, header, clearers, records_at_once, tmp_path):
    """An entry that a process has looked up stays until the process ends, even if others clear the cache."""
    builders, failed, removed = [], [], []

    def build(number: int) -> None:
        try:
            for turn in range(25):
                cache = Cache(tmp_path / "cache", ABI)
                recipe = RECIPES[(number + turn) % 2]
                entry = loader_lookup(cache, recipe) or cache.build(recipe, Builder(header))
                time.sleep(0.001 * (turn % 3))
                assert entry.shared_object.read_bytes() == machine_code(header)
                cache.use(entry)
                forget_leases(cache)
        except BaseException as error:
            failed.append(error)

    def clear_all() -> None:
        try:
            cache = open_cache()
            while any(builder.is_alive() for builder in builders):
                removed.extend(clear(cache))
                list_entries(cache.root)
        except BaseException as error:
            failed.append(error)

    builders += [threading.Thread(target=build, args=[number]) for number in range(4)]
    threads = [*builders, *(threading.Thread(target=clear_all) for _ in range(clearers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == [] and len(removed) > 5


def test_entry_that_is_being_removed_is_a_miss(entries, open_cache, header, records_at_once):
    built = entries.build(RECIPE, Builder(header))
    assert loader_lookup(entries) == built
    forget_leases(entries)
    other = open_cache()
    with other.leases.unused(built.directory) as unused:
        assert unused is True
        assert loader_lookup(entries) is None and not entries.use(built)
    assert loader_lookup(entries) == built
    built.directory.rename(built.directory.with_name(".evicted-1"))
    assert not entries.use(built)
