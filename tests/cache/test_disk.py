"""Disk errors: they raise clear errors, and never lose a finished build."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import types
from pathlib import Path

import pytest
from support.fake_builder import (
    RECIPE,
    Builder,
    below,
    compile_error,
    forget_leases,
    loader_lookup,
    recipe_with_part,
    records_of,
)

from tkjit.cache import MANIFEST, building, bundle, eviction, failures
from tkjit.errors import CacheError, CompileError


def failing(number: int):
    def refuse(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    return refuse


# ---- writing


def test_root_that_is_not_a_directory_is_reported(tmp_path, open_cache, header):
    (tmp_path / "file").write_text("")
    root = tmp_path / "file/cache"
    cache = open_cache(root)
    builder = Builder(header)
    assert cache.lookup(RECIPE) is None
    with pytest.raises(CacheError) as caught:
        cache.build(RECIPE, builder)
    assert str(root) in str(caught.value) and "set TKJIT_CACHE to another one" in str(caught.value)
    assert builder.calls == 0


@pytest.mark.parametrize(
    "number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT, errno.ESTALE], ids=errno.errorcode.get
)
@pytest.mark.parametrize("function", ["mkdir", "rename", "fsync"])
def test_unwritable_disk_is_reported(entries, header, monkeypatch, function, number):
    with monkeypatch.context() as patch:
        patch.setattr(os, function, failing(number))
        with pytest.raises(CacheError) as caught:
            entries.build(RECIPE, Builder(header))
    assert str(entries.root) in str(caught.value)
    assert os.strerror(number) in str(caught.value)
    assert "set TKJIT_CACHE to another one" in str(caught.value)
    assert below(entries.root, ".staging*") == []
    assert entries.lookup(RECIPE) is None
    assert entries.build(RECIPE, Builder(header)).shared_object.is_file()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS], ids=errno.errorcode.get)
def test_disk_that_fills_up_during_compilation_is_reported(entries, header, number):
    with pytest.raises(CacheError, match=os.strerror(number)):
        entries.build(RECIPE, Builder(header, error=OSError(number, os.strerror(number))))
    assert below(entries.root, ".staging*") == []


def test_staging_directory_removed_during_compilation_is_reported(entries, header):
    def lose(staging: Path):
        shutil.rmtree(staging)
        return Builder(header)(staging)

    with pytest.raises(CacheError, match="cannot write to the cache directory"):
        entries.build(RECIPE, lose)


def test_missing_file_of_the_builder_is_not_reported_as_a_disk_error(entries, header):
    with pytest.raises(FileNotFoundError):
        entries.build(RECIPE, lambda staging: Path("/no/such/file").read_text())


def test_noexec_file_system_is_rejected(entries, header, monkeypatch):
    builder = Builder(header)
    monkeypatch.setattr(os, "statvfs", lambda path: types.SimpleNamespace(f_flag=os.ST_RDONLY | os.ST_NOEXEC))
    with pytest.raises(CacheError, match=r"is on a file system that is mounted noexec.*set TKJIT_CACHE to another"):
        entries.build(RECIPE, builder)
    assert builder.calls == 0 and below(entries.root, ".staging*") == []


# ---- reading


def test_unreadable_directory_is_reported(entries, header, monkeypatch):
    entries.build(RECIPE, Builder(header))
    monkeypatch.setattr(os, "listdir", failing(errno.EACCES))
    with pytest.raises(CacheError, match=r"cannot read the cache directory .*Permission denied"):
        entries.lookup(RECIPE)


@pytest.mark.parametrize("name", [MANIFEST, "dependencies.json", "launcher.so"])
def test_unreadable_file_is_a_miss(entries, header, monkeypatch, name):
    entries.build(RECIPE, Builder(header))
    opened = os.open

    def refuse(path, *args, **kwargs):
        if str(path).endswith(name):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return opened(path, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        assert entries.lookup(RECIPE) is None
    assert entries.lookup(RECIPE) is not None


def test_read_only_cache_still_hits(entries, header, monkeypatch, records_at_once):
    built = entries.build(RECIPE, Builder(header))
    os.utime(built.directory, (1, 1))
    for function in ("open", "mkdir", "utime", "rename", "replace"):
        plain = getattr(os, function)

        def refuse(path, *args, plain=plain, **kwargs):
            if plain.__name__ == "open" and not args[0] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                return plain(path, *args, **kwargs)
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

        monkeypatch.setattr(os, function, refuse)
    forget_leases(entries)
    assert loader_lookup(entries) == built
    assert records_of(entries) == []
    monkeypatch.undo()
    assert [entry.directory for entry in eviction.in_use(entries)] == [built.directory]  # a lease needs no writing


# ---- cleaning up: a failure loses no build


@pytest.mark.parametrize("number", [errno.EBUSY, errno.ESTALE, errno.ENOTEMPTY], ids=errno.errorcode.get)
@pytest.mark.parametrize("function", ["rmdir", "unlink", "utime"])
def test_undeletable_leftovers_do_not_lose_the_build(entries, header, monkeypatch, function, number):
    """A build tries to remove two leftovers: the record of a failed build, and a broken entry."""
    for leave in (entries.failure_directory(RECIPE), entries.directory(RECIPE) / f"{building.BROKEN}x"):
        leave.mkdir(parents=True)
        (leave / "file").write_text("")
    with monkeypatch.context() as patch:
        patch.setattr(os, function, failing(number))
        built = entries.build(RECIPE, Builder(header))
    assert built.shared_object.is_file()
    assert entries.lookup(RECIPE) == built


def test_failed_sync_after_publishing_does_not_lose_the_build(entries, header, monkeypatch):
    sync = building._sync

    def refuse(path):
        if not path.name.startswith(building.STAGING) and path.is_dir():
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return sync(path)

    monkeypatch.setattr(building, "_sync", refuse)
    built = entries.build(RECIPE, Builder(header))
    assert entries.lookup(RECIPE) == built


def test_unreleasable_lock_does_not_lose_the_build(entries, header, monkeypatch):
    from tkjit.cache import locks

    unlock = locks.fcntl.flock

    def refuse(descriptor, operation):
        if operation == locks.fcntl.LOCK_UN:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return unlock(descriptor, operation)

    monkeypatch.setattr(locks.fcntl, "flock", refuse)
    monkeypatch.setattr(locks.os, "ftruncate", failing(errno.ESTALE))
    built = entries.build(RECIPE, Builder(header))
    assert entries.lookup(RECIPE) == built


def test_failed_eviction_does_not_lose_the_build(open_cache, header, monkeypatch):
    cache = open_cache(limit_bytes=0)
    monkeypatch.setattr(eviction, "list_entries", failing(errno.ESTALE))
    built = cache.build(RECIPE, Builder(header))
    assert cache.lookup(RECIPE) == built


# ---- permissions


def open_to_others(root: Path) -> list[str]:
    """List the paths that everybody can reach and write to."""
    found = []
    for place, folders, names in os.walk(root):
        if not os.stat(place).st_mode & stat.S_IXOTH:
            folders.clear()
            continue
        paths = [place, *(f"{place}/{name}" for name in names)]
        found += [path for path in paths if os.stat(path).st_mode & stat.S_IWOTH]
    return found


def test_nothing_is_left_world_writable_under_umask_000(entries, header, umask, records_at_once, tmp_path):
    umask(0o000)
    seen = []
    builder = Builder(header, during=lambda: seen.append(open_to_others(entries.root)))
    built = entries.build(RECIPE, builder)
    assert loader_lookup(entries) == built and len(records_of(entries)) == 1
    failing = recipe_with_part("flags", "-O0")
    with pytest.raises(CompileError):
        entries.build(failing, Builder(header, error=compile_error(entries, failing)))
    assert len(below(entries.root, failures.FAILURE)) == 1
    bundle.write(tmp_path / "bundle", [built], {})
    assert [*seen, open_to_others(entries.root), open_to_others(tmp_path / "bundle")] == [[], [], []]
    assert os.stat(entries.root).st_mode & 0o777 == 0o755


@pytest.mark.parametrize("mask, mode", [(0o022, 0o755), (0o002, 0o755), (0o000, 0o755), (0o077, 0o700)])
def test_entry_permissions_follow_the_umask_without_write_access_for_others(entries, header, umask, mask, mode):
    umask(mask)
    directory = entries.build(RECIPE, Builder(header)).directory
    for path in (entries.root, *entries.root.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (mode if path.is_dir() else mode & 0o644), path
    assert directory.is_dir()


def test_shared_cache_is_writable_by_others(open_cache, header, umask, records_at_once):
    umask(0o000)
    cache = open_cache(shared=True)
    seen = []
    staging = lambda: seen.extend(stat.S_IMODE(path.stat().st_mode) for path in cache.building)  # noqa: E731
    built = cache.build(RECIPE, Builder(header, during=staging))
    assert seen == [0o777]  # if the builder is killed, another user's process must be able to remove the directory
    assert loader_lookup(cache) == built
    directories = [cache.root, *(path for path in cache.root.rglob("*") if path.is_dir())]
    assert {stat.S_IMODE(path.stat().st_mode) for path in directories} == {0o777}
    # everyone who builds must be able to take the lock, and to see which entries are in use
    for name in (".lock", "in-use"):
        (path,) = cache.root.rglob(name)
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
