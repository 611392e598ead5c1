"""Files of the cache: FIFOs, planted links, directories of untrusted users, and shared caches."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import stat
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.alarms import raising_alarm
from support.fake_builder import RECIPE, Builder, below, compile_error, loader_lookup, recipe_with_part, records_of

from tkjit.cache import DEPENDENCIES, MANIFEST, DamagedError, bundle, eviction, failures, fingerprints, locks
from tkjit.cache.entry import read_manifest
from tkjit.cache.listing import list_entries
from tkjit.compile import toolchain
from tkjit.compile.tool_memo import ToolMemo
from tkjit.compile.toolchain import Toolchain
from tkjit.config import Settings
from tkjit.errors import CacheError
from tkjit.loader.record import record
from tkjit.system import files, trust

DEEP = "[" * 200_000


@contextmanager
def within(seconds: int):
    """Interrupt the block if it hangs."""

    with raising_alarm(TimeoutError):
        signal.alarm(seconds)
        yield


def fifo(path: Path) -> None:
    os.mkfifo(path)


def directory(path: Path) -> None:
    path.mkdir()


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        previous = Path.cwd()
        os.chdir(path.parent)  # the path of a socket must be short
        server.bind(path.name)
        os.chdir(previous)


def link(path: Path) -> None:
    """Make a link to another user's precious file."""
    victim = path.parent / "victim"
    victim.write_text("precious")
    path.symlink_to(victim)


def dangling(path: Path) -> None:
    path.symlink_to(path.parent / "made through another user's link")


PLANTS = [fifo, directory, listening, link, dangling]


# ---- reading and writing


@pytest.mark.parametrize("plant", PLANTS)
def test_only_regular_files_are_read(tmp_path, plant):
    plant(tmp_path / "note")
    with within(5), pytest.raises(files.NotAFileError, match=r"note is not a regular file; remove it"):
        files.read(tmp_path / "note")


@pytest.mark.parametrize("plant", PLANTS)
def test_only_regular_files_are_used_as_locks(tmp_path, plant):
    plant(tmp_path / "lock")
    before = sorted(tmp_path.iterdir())
    for writable in (True, False):
        with within(5), pytest.raises(OSError) as caught:
            files.open_lock(tmp_path / "lock", writable=writable)
        assert isinstance(caught.value, files.NotAFileError | IsADirectoryError)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("plant", [fifo, listening, link, dangling])
def test_planted_file_is_replaced_and_not_written_to(tmp_path, plant):
    plant(tmp_path / "note")
    with within(5):
        files.write(tmp_path / "note", "new")
    assert (tmp_path / "note").read_text() == "new" and (tmp_path / "note").is_file()
    assert not (tmp_path / "note").is_symlink()
    assert not (tmp_path / "victim").exists() or (tmp_path / "victim").read_text() == "precious"
    assert not (tmp_path / "made through another user's link").exists()
    assert below(tmp_path, f"{files.SCRATCH}*") == []


def test_links_are_followed_only_on_request(tmp_path):
    link(tmp_path / "manifest")
    assert files.read(tmp_path / "manifest", follow=True) == b"precious"
    with within(5), pytest.raises(files.NotAFileError):
        fifo(tmp_path / "fifo")
        (tmp_path / "to").symlink_to(tmp_path / "fifo")
        files.read(tmp_path / "to", follow=True)


@pytest.mark.parametrize("size", [0, 1, 4096, (1 << 16) + 1, (1 << 20) + 3])
def test_whole_file_is_read(tmp_path, size):
    (tmp_path / "file").write_bytes(os.urandom(size))
    assert files.read(tmp_path / "file") == (tmp_path / "file").read_bytes()


def test_scratch_name_is_unpredictable(tmp_path, monkeypatch):
    names = []
    opened = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest: names.append((path, rest[0])) or opened(path, *rest))
    files.write(tmp_path / "tools.json", "1")
    files.write(tmp_path / "tools.json", "2")
    (first, flags), (second, _) = names
    assert first != second and str(os.getpid()) not in first.removeprefix(str(tmp_path))
    assert flags & os.O_EXCL and flags & os.O_NOFOLLOW


def test_failed_write_leaves_the_file_unchanged(tmp_path, monkeypatch):
    files.write(tmp_path / "file", "before")

    def refuse(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="No space"):
        files.write(tmp_path / "file", "after")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "before"


@pytest.mark.parametrize("text", [DEEP, '{"a":' * 200_000, DEEP + "]" * 200_000])
def test_deeply_nested_brackets_are_rejected(text):
    with pytest.raises(ValueError, match="too deep"):
        files.from_json(text)


# ---- in a cache whose files are replaced by something else


def places(cache, built) -> dict[str, Path]:
    """Return the files that a process reads when it looks up or builds an existing entry."""
    return {
        "note": records_of(cache)[0],
        "in-use": cache.root / "v1/in-use",
        "manifest": built.directory / MANIFEST,
        "dependencies": built.directory / DEPENDENCIES,
        "shared object": built.shared_object,
        "lock": built.directory.parent / locks.LOCK,
    }


@pytest.mark.parametrize("plant", [fifo, directory, dangling])
@pytest.mark.parametrize("name", ["note", "in-use", "manifest", "dependencies", "shared object", "lock"])
def test_replaced_file_causes_no_hang_and_no_stray_write(entries, open_cache, header, records_at_once, name, plant):
    built = entries.build(RECIPE, Builder(header))
    loader_lookup(entries)
    path = places(entries, built)[name]
    path.unlink()
    plant(path)
    cache = open_cache(shared=False)
    with within(10):
        if name in ("note", "in-use", "lock"):
            assert loader_lookup(cache) == built
        else:
            assert cache.lookup(RECIPE) is None
            again = cache.build(RECIPE, Builder(header))
            assert loader_lookup(cache) == again
        assert list_entries(cache.root) and bundle.verify(cache.root)
        eviction.clear(cache)
        if name == "lock" and plant is not directory:  # a directory is cleared as a leftover
            with pytest.raises(CacheError, match=r"\.lock is not a regular file; remove it"):
                cache.build(RECIPE, Builder(header))
    assert below(cache.root, "made by*") == []


@pytest.mark.parametrize("name", [failures.FAILURE, bundle.BUNDLE])
def test_replaced_failure_record_or_bundle_list_is_ignored(entries, open_cache, header, tmp_path, name):
    built = entries.build(RECIPE, Builder(header))
    with within(10):
        if name == bundle.BUNDLE:
            bundle.write(tmp_path / "bundle", [built], {})
            (tmp_path / "bundle" / name).unlink()
            (tmp_path / "made").write_text("{}")
            (tmp_path / "bundle" / name).symlink_to(tmp_path / "made")
            assert open_cache(tmp_path / "own", layers=[tmp_path / "bundle"]).lookup(RECIPE) is None
        else:
            compile_error(entries)
            fifo(entries.failure_directory(RECIPE) / name)
            assert failures.failure_of(entries.failure_directory(RECIPE), frozenset(["a-turn"])) is None


def test_dependency_replaced_by_a_fifo_is_a_change(entries, header, records_at_once):
    entries.build(RECIPE, Builder(header))
    assert loader_lookup(entries)
    header.unlink()
    fifo(header)
    with within(5):
        assert loader_lookup(entries) is None


def test_recording_to_a_fifo_without_a_reader_is_an_error(tmp_path):
    from tkjit.compile.targets import Target
    from tkjit.spec import Variant

    spec = type("Spec", (), {"name": "gemm", "module": "gemm"})()
    fifo(tmp_path / "used")
    with within(5), pytest.raises(CacheError, match="cannot write the record"):
        record(tmp_path / "used", spec, 0, Variant(()), Target("80"))
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "used").read_text()))
    reader.start()
    while not read:
        try:
            record(tmp_path / "used", spec, 0, Variant(()), Target("80"))
            reader.join(5)
        except CacheError:
            continue
    assert json.loads(read[0].splitlines()[0])["name"] == "gemm"


@pytest.mark.parametrize("text", [DEEP, '{"a":' * 100_000])
@pytest.mark.parametrize("name", ["note", "manifest", "dependencies", "lock"])
def test_deeply_nested_brackets_are_a_miss(entries, open_cache, header, records_at_once, name, text):
    built = entries.build(RECIPE, Builder(header))
    loader_lookup(entries)
    path = places(entries, built)[name]
    path.write_text(f"{text}\n")
    cache = open_cache()
    if name == "lock":
        assert locks._HolderMonitor(path).look() is None
    else:
        assert (cache.lookup(RECIPE) == built) == (name == "note")
    assert fingerprints.read_record(path) is None
    if name == "manifest":
        with pytest.raises(DamagedError):
            read_manifest(built.directory)
    assert cache.build(RECIPE, Builder(header)).shared_object.is_file()


@pytest.mark.parametrize(
    "content",
    [
        {"process": {"machine": "m", "host": "h", "pid": "1", "started": 1}, "since": 1.0},
        {"process": {"machine": "m", "host": "h", "pid": 1, "started": 1}, "since": "then"},
        {"process": {"machine": "m", "host": "h", "pid": 1, "started": 1}, "since": 1.0, "staging": ["x"]},
        {"process": 3},
        3,
        [],
    ],
)
def test_lock_with_invalid_content_has_no_holder(tmp_path, content):
    more = {"kernel": "gemm", "token": "turn"} if isinstance(content, dict) else None
    (tmp_path / ".lock").write_text(json.dumps({**more, **content} if more else content))
    assert locks._HolderMonitor(tmp_path / ".lock").look() is None


# ---- untrusted users


@pytest.fixture
def foreign(entries, header, records_at_once, monkeypatch):
    """Makes the cache belong to another user, and returns an entry in it."""
    built = entries.build(RECIPE, Builder(header))
    loader_lookup(entries)
    look = trust.check

    def owned_by_another(path):
        if Path(path) == entries.root:
            raise CacheError(f"{path} belongs to user bob")
        return look(path)

    monkeypatch.setattr(trust, "check", owned_by_another)
    return built


def test_cache_of_another_user_is_rejected_before_anything_is_opened(foreign, entries, open_cache, header, monkeypatch):
    opened = os.open
    touched = []

    def spy(path, *rest, **options):
        if str(path).startswith(f"{entries.root}/"):
            touched.append(path)
        return opened(path, *rest, **options)

    monkeypatch.setattr(os, "open", spy)
    monkeypatch.setattr(os, "listdir", lambda path: pytest.fail(f"{path} is listed"))
    before = sorted(entries.root.rglob("*"))
    cache = open_cache()
    for action in (
        lambda: cache.warm_lookup(records_of(entries)[0].name),
        lambda: cache.lookup(RECIPE),
        lambda: cache.write_record("gemm", [foreign], b""),
        lambda: cache.build(RECIPE, Builder(header)),
        lambda: eviction.clear(cache),
        lambda: eviction.prune(cache, 0),
    ):
        with pytest.raises(CacheError, match="belongs to user bob"):
            action()
    assert touched == [] and sorted(entries.root.rglob("*")) == before


@pytest.fixture
def gxx(tmp_path) -> Path:
    path = tmp_path / "bin/g++"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\necho 'g++ (GCC) 12.2.0'\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("mode", [0o777, 0o755])
@pytest.mark.parametrize("plant", PLANTS)
def test_compiler_versions_are_saved_safely(tmp_path, gxx, plant, mode):
    """An attacker has planted files at the memo's path and at a guessable name of its scratch file."""
    root = tmp_path / "cache"
    (root / "v1").mkdir(parents=True)
    plant(root / "v1/tools.json")
    (root / f"v1/tools.json.{os.getpid()}").symlink_to(tmp_path / "victim")
    (tmp_path / "victim").write_text("precious")
    root.chmod(mode)
    before = sorted(path.name for path in (root / "v1").iterdir())
    tools = Toolchain(Settings(root, search_path=str(gxx.parent)), root / "v1/tools.json")
    with within(10):
        assert tools.cxx.version.startswith("g++ (GCC) 12.2.0")
        assert tools.cxx.version.startswith("g++ (GCC) 12.2.0")
    assert (tmp_path / "victim").read_text() == "precious"
    if mode == 0o777:
        assert sorted(path.name for path in (root / "v1").iterdir()) == before, "nothing may be written there"
    elif plant is not directory:
        assert "g++" in json.loads((root / "v1/tools.json").read_text()).popitem()[0]


def test_deeply_nested_compiler_versions_are_replaced(tmp_path, gxx):
    memo = tmp_path / "cache/v1/tools.json"
    memo.parent.mkdir(parents=True)
    memo.write_text('{"a":' * 100_000)
    assert toolchain.Toolchain(Settings(tmp_path / "cache", search_path=str(gxx.parent)), memo).cxx.version
    assert json.loads(memo.read_text())


# ---- sharing


def modes(root: Path) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {"directories": set(), "files": set()}
    for path in (root, *root.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        kind = "directories" if path.is_dir() else "files"
        found[kind].add(mode if kind == "directories" else mode & 0o666)
    return found


@pytest.mark.parametrize("mask", [0o022, 0o077])
@pytest.mark.parametrize("mode", [0o777, 0o2775, 0o2770, 0o1777])
def test_files_in_a_shared_cache_get_the_permissions_of_its_root(
    open_cache, header, umask, mask, mode, tmp_path, records_at_once
):
    umask(mask)
    root = tmp_path / "shared"
    root.mkdir()
    root.chmod(mode)
    cache = open_cache(root, shared=True)
    cache.build(RECIPE, Builder(header, during=lambda: [below(root, "*")]))
    assert loader_lookup(cache) and records_of(cache)
    failing = recipe_with_part("flags", "-O0")
    with pytest.raises(Exception, match="no"):
        cache.build(failing, Builder(header, error=compile_error(cache, failing)))
    ToolMemo(cache.tools_memo, Settings(root, cache_shared=True)).fact(Path("/bin/sh"), "name", lambda: "sh")
    root.chmod(mode & ~0o1000)
    found = modes(root / "v1")
    assert found["directories"] == {mode & 0o2777}
    assert found["files"] == {mode & 0o666}


def test_new_shared_cache_gets_the_permissions_of_its_parent(open_cache, header, umask, tmp_path):
    umask(0o022)
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab").chmod(0o2775)
    cache = open_cache(tmp_path / "lab/cache", shared=True)
    cache.build(RECIPE, Builder(header))
    assert modes(cache.root)["directories"] == {0o2775}


def test_owner_is_warned_if_nobody_else_can_write_to_a_shared_cache(open_cache, header, umask, tmp_path):
    umask(0o022)
    tmp_path.chmod(0o755)
    cache = open_cache(shared=True)
    with pytest.warns(UserWarning, match=r"only the owner can write to .*cache \(mode 755\), .* chmod 2775") as warned:
        cache.build(RECIPE, Builder(header))
        cache.build(recipe_with_part("flags", "-O0"), Builder(header))
    assert len(warned) == 1


SECOND_USER = """
import grp, pwd, subprocess, warnings
from tkjit.cache import building, eviction
os.setgroups([]); os.setgid(int(sys.argv[3])); os.setuid(int(sys.argv[3])); os.umask(0o022)
warnings.simplefilter("ignore")
time_of_notes = fingerprints.SETTLED_NS
fingerprints.SETTLED_NS = 0
cache = Cache(Path(sys.argv[1]), ABI, shared=True)
header = Path(sys.argv[2])
recipes = [RECIPE, recipe_with_part("flags", sys.argv[3])]
for recipe in recipes:
    builder = Builder(header)
    assert (loader_lookup(cache, recipe) or cache.build(recipe, builder)).shared_object.is_file()
    assert loader_lookup(cache, recipe)
    print(builder.calls)
print(len(eviction.clear(cache, lambda one: one.manifest["key"]["flags"] != sys.argv[3])))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_two_users_with_umask_022_can_build_and_remove(start, header, tmp_path):
    for place in (tmp_path, *tmp_path.parents[:3]):
        place.chmod(place.stat().st_mode | 0o055)
    root = tmp_path / "shared"
    root.mkdir()
    root.chmod(0o777)
    first = start(SECOND_USER, root, header, 12345)
    assert first.communicate(timeout=60)[0].split() == ["1", "1", "0"]
    assert first.returncode == 0
    second = start(SECOND_USER, root, header, 12346)
    # the second user's processes use the first one's entry, build another next to it, and remove the first one's
    assert second.communicate(timeout=60)[0].split() == ["0", "1", "1"]
    assert second.returncode == 0


def test_directory_made_and_removed_by_others_meanwhile_is_made(tmp_path, monkeypatch):
    mkdir, removed = os.mkdir, []

    def late(path, mode=0o777):
        if not removed:
            removed.append(path)
            raise FileExistsError  # but the directory is gone when the caller looks at it
        mkdir(path, mode)

    monkeypatch.setattr(os, "mkdir", late)
    assert files.make_directory(tmp_path / "a/b").is_dir() and removed == [tmp_path / "a"]
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match=r"exists|Not a directory"):
        files.make_directory(tmp_path / "fifo/b")
