"""The cache: what is a hit and what a miss, and that no failure leaves half an entry."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import filelock
import pytest

from tkjit.cache import DEPENDENCIES, MANIFEST, SEEN, Cache, Entry, Product, Recipe
from tkjit.errors import CacheError, TkjitError

RECIPE = Recipe("sm_90a", "gemm", (("text", "int main() {}"), ("flags", "-O3"), ("compiler", "g++ 12")))


class Builder:
    """Stands for a compiler: writes a shared object that names its dependencies' contents, and counts its calls."""

    def __init__(self, *dependencies: Path, error: BaseException | None = None, seconds: float = 0) -> None:
        self.dependencies, self.error, self.seconds, self.calls = dependencies, error, seconds, 0

    def __call__(self, staging: Path) -> Product:
        self.calls += 1
        time.sleep(self.seconds)
        (staging / "launcher.cu").write_text("int main() {}")
        (staging / "launcher.so").write_bytes(b"machine code " + b"".join(d.read_bytes() for d in self.dependencies))
        if self.error:
            raise self.error
        return Product("launcher.so", self.dependencies, {"seconds": 1.5, "module": "tkjit_glue_0"})


@pytest.fixture
def header(tmp_path):
    path = tmp_path / "include/gl.h"
    path.parent.mkdir()
    path.write_text("struct gl {};")
    return path


@pytest.fixture
def entries(tmp_path):
    return Cache(tmp_path / "cache", "cpython-311")


def below(directory: Path, pattern: str) -> list[str]:
    return sorted(path.name for path in directory.rglob(pattern))


def test_a_miss_then_a_hit(entries, header):
    builder = Builder(header)
    assert entries.lookup(RECIPE) is None
    built = entries.build(RECIPE, builder)
    found = entries.lookup(RECIPE)
    assert found == built
    assert found.shared_object.read_bytes() == b"machine code struct gl {};"
    assert entries.build(RECIPE, builder) == built
    assert builder.calls == 1


def test_looking_up_creates_nothing(entries):
    assert entries.lookup(RECIPE) is None
    assert not entries.root.exists()


def test_where_an_entry_lies(entries, header):
    directory = entries.build(RECIPE, Builder(header)).directory
    assert directory.parent == entries.root / "v1/cpython-311/sm_90a" / f"gemm-{RECIPE.build_key[:16]}"
    assert {"launcher.cu", "launcher.so", "manifest.json"} <= set(below(directory, "*.*"))


def test_the_manifest_says_what_went_in(entries, header):
    manifest = json.loads((entries.build(RECIPE, Builder(header)).directory / MANIFEST).read_text())
    assert (manifest["name"], manifest["arch"], manifest["shared_object"]) == ("gemm", "sm_90a", "launcher.so")
    assert set(manifest["key"]) == {"text", "flags", "compiler"}
    assert set(manifest["files"]) == {"launcher.cu", "launcher.so"}
    assert manifest["seconds"] == 1.5


@pytest.mark.parametrize(
    "changed",
    [
        replace(RECIPE, arch="sm_80"),
        replace(RECIPE, name="axpy"),
        *(
            replace(RECIPE, parts=tuple((n, t + " " if n == name else t) for n, t in RECIPE.parts))
            for name, _ in RECIPE.parts
        ),
        replace(RECIPE, parts=RECIPE.parts[:2]),
        replace(RECIPE, parts=(("flags", "int main() {}"), ("text", "-O3"), RECIPE.parts[2])),
    ],
)
def test_any_changed_part_is_a_miss(entries, header, changed):
    entries.build(RECIPE, Builder(header))
    assert entries.lookup(changed) is None


def test_another_abi_is_a_miss(entries, header):
    entries.build(RECIPE, Builder(header))
    assert Cache(entries.root, "cpython-312").lookup(RECIPE) is None


def test_an_edited_dependency_is_a_miss_and_both_builds_are_kept(entries, header):
    builder = Builder(header)
    first = entries.build(RECIPE, builder)
    header.write_text("struct lg {};")
    assert entries.lookup(RECIPE) is None
    second = entries.build(RECIPE, builder)
    assert second.directory.parent == first.directory.parent and second != first
    assert second.shared_object.read_bytes() == b"machine code struct lg {};"
    header.write_text("struct gl {};")
    assert entries.lookup(RECIPE).directory == first.directory
    assert builder.calls == 2


def test_an_edit_of_the_same_size_and_time_is_seen(entries, header):
    entries.build(RECIPE, Builder(header))
    before = header.stat()
    header.write_text("struct lg {};")
    os.utime(header, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert entries.lookup(RECIPE) is None


def test_a_removed_dependency_is_a_miss(entries, header):
    entries.build(RECIPE, Builder(header))
    header.unlink()
    assert entries.lookup(RECIPE) is None


def test_a_touched_dependency_is_a_hit_and_read_once(entries, header, monkeypatch):
    from tkjit import cache

    built = entries.build(RECIPE, Builder(header))
    os.utime(header, ns=(1, 1))
    assert entries.lookup(RECIPE) == built
    monkeypatch.setattr(cache, "_digest_file", lambda path: pytest.fail(f"{path} is read again"))
    assert entries.lookup(RECIPE) == built


def test_a_warm_hit_reads_no_dependency(entries, header, monkeypatch):
    from tkjit import cache

    built = entries.build(RECIPE, Builder(header))
    monkeypatch.setattr(cache, "_digest_file", lambda path: pytest.fail(f"{path} is read"))
    assert entries.lookup(RECIPE) == built


# ---- anchors


def anchored(directory: Path) -> Recipe:
    parts = (*RECIPE.parts[:1], ("paths", f" -I{directory} -I{directory / 'sub'}"))
    return replace(RECIPE, parts=parts, anchors=(("kernels", str(directory)),))


def test_a_moved_anchor_is_a_hit(entries, header, tmp_path):
    old, new = header.parent, tmp_path / "elsewhere"
    built = entries.build(anchored(old), Builder(header))
    old.rename(new)
    assert entries.lookup(anchored(new)).directory == built.directory
    (new / "gl.h").write_text("edited")
    assert entries.lookup(anchored(new)) is None


def test_a_path_in_a_define_is_a_value(entries, header, tmp_path):
    """It is compiled into the binary: another directory is another binary."""

    def defining(directory: Path) -> Recipe:
        recipe = anchored(directory)
        return replace(recipe, parts=(*recipe.parts, ("flags", f"-DHERE={directory}")))

    entries.build(defining(header.parent), Builder(header))
    header.parent.rename(tmp_path / "elsewhere")
    assert entries.lookup(defining(tmp_path / "elsewhere")) is None


def test_what_an_entry_records_has_no_path(entries, header):
    entry = entries.build(anchored(header.parent), Builder(header))
    recorded = "".join(path.read_text() for path in entry.directory.glob("*.json") if path.name != SEEN)
    assert str(header.parent) not in recorded
    assert "<kernels>/gl.h" in recorded


def test_without_an_anchor_a_moved_directory_is_a_miss(entries, header, tmp_path):
    plain = replace(anchored(header.parent), anchors=())
    entries.build(plain, Builder(header))
    header.parent.rename(tmp_path / "elsewhere")
    assert entries.lookup(replace(anchored(tmp_path / "elsewhere"), anchors=())) is None


def test_the_longest_anchor_stands_for_a_path():
    recipe = Recipe("a", "n", (), (("site", "/venv"), ("toolkit", "/venv/nvidia/cu13"), ("tkjit", "/venv/tkjit")))
    assert recipe.anchored("/venv/nvidia/cu13/include/a.h /venv/b.h") == "<toolkit>/include/a.h <site>/b.h"
    assert recipe.resolved("<toolkit>/include/a.h") == "/venv/nvidia/cu13/include/a.h"
    assert recipe.resolved("/usr/include/a.h") == "/usr/include/a.h"


def test_an_anchor_stands_for_whole_directories_only():
    recipe = Recipe("a", "n", (), (("tkjit", "/src/tkjit"),))
    assert recipe.anchored("/src/tkjit-plugins/a.h") == "/src/tkjit-plugins/a.h"
    assert recipe.anchored("-I/src/tkjit\n-I/src/tkjit/x") == "-I<tkjit>\n-I<tkjit>/x"


def test_a_moved_cache_still_hits(entries, header, tmp_path):
    entries.build(RECIPE, Builder(header))
    entries.root.rename(tmp_path / "moved")
    assert Cache(tmp_path / "moved", "cpython-311").lookup(RECIPE) is not None


# ---- what goes wrong


@pytest.mark.parametrize("error", [TkjitError("refused"), ValueError("a bug"), KeyboardInterrupt()])
def test_a_builders_error_passes_through_and_leaves_nothing(entries, header, error):
    with pytest.raises(type(error)) as caught:
        entries.build(RECIPE, Builder(header, error=error))
    assert caught.value is error
    assert below(entries.root, ".staging*") == [] and below(entries.root, "launcher*") == []
    assert entries.lookup(RECIPE) is None
    assert entries.build(RECIPE, Builder(header)).shared_object.is_file()


def test_a_root_that_is_not_a_directory(tmp_path, header):
    (tmp_path / "file").write_text("")
    root = tmp_path / "file/cache"
    cache = Cache(root, "cpython-311")
    builder = Builder(header)
    assert cache.lookup(RECIPE) is None
    with pytest.raises(CacheError) as caught:
        cache.build(RECIPE, builder)
    assert str(root) in str(caught.value) and "set TKJIT_CACHE to another one" in str(caught.value)
    assert builder.calls == 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT], ids=errno.errorcode.get)
@pytest.mark.parametrize("function", ["mkdir", "rename", "fsync"])
def test_a_disk_that_cannot_be_written(entries, header, monkeypatch, function, number):
    def refuse(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, function, refuse)
        with pytest.raises(CacheError) as caught:
            entries.build(RECIPE, Builder(header))
    assert str(entries.root) in str(caught.value)
    assert os.strerror(number) in str(caught.value)
    assert "set TKJIT_CACHE to another one" in str(caught.value)
    assert below(entries.root, ".staging*") == []
    assert entries.lookup(RECIPE) is None


def test_a_full_disk_while_the_compiler_writes(entries, header):
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(CacheError, match="No space left on device"):
        entries.build(RECIPE, Builder(header, error=error))
    assert below(entries.root, ".staging*") == []


def test_a_directory_that_cannot_be_read(entries, header, monkeypatch):
    entries.build(RECIPE, Builder(header))

    def refuse(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(CacheError, match=r"cannot read the cache directory .*Permission denied"):
        entries.lookup(RECIPE)


def test_a_read_only_cache_still_hits(entries, header, monkeypatch):
    built = entries.build(RECIPE, Builder(header))
    os.utime(header, ns=(1, 1))

    def refuse(*args, **kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "write_text", refuse)
    assert entries.lookup(RECIPE) == built


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def flip_keeping_time(path: Path) -> None:
    before = path.stat()
    flip(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def empty(path: Path) -> None:
    path.write_bytes(b"")


def replaced_by_a_list(path: Path) -> None:
    path.write_text("[]")


@pytest.mark.parametrize(
    "name, damage",
    [
        *(("launcher.so", damage) for damage in (truncate, flip, flip_keeping_time, empty, Path.unlink)),
        *((MANIFEST, damage) for damage in (truncate, empty, replaced_by_a_list, Path.unlink)),
    ],
)
def test_a_damaged_entry_is_a_miss_and_is_rebuilt(entries, header, name, damage):
    builder = Builder(header)
    damage(entries.build(RECIPE, builder).directory / name)
    assert entries.lookup(RECIPE) is None
    entry = entries.build(RECIPE, builder)
    assert builder.calls == 2
    assert entries.lookup(RECIPE) == entry
    assert entry.shared_object.read_bytes() == b"machine code struct gl {};"


def test_an_entry_may_be_damaged_more_than_once(entries, header):
    builder = Builder(header)
    for calls in (1, 2, 3):
        entry = entries.build(RECIPE, builder)
        assert builder.calls == calls
        assert entries.lookup(RECIPE) == entry
        flip(entry.shared_object)


@pytest.mark.parametrize("damage", [truncate, flip, empty, replaced_by_a_list, Path.unlink])
def test_a_damaged_list_of_dependencies_is_never_a_wrong_hit(entries, header, damage):
    entry = entries.build(RECIPE, Builder(header))
    damage(entry.directory / DEPENDENCIES)
    header.write_text("edited")
    assert entries.lookup(RECIPE) is None


@pytest.mark.parametrize("fact", ["module", "shared_object"])
def test_a_manifest_with_a_flipped_fact_is_a_miss(entries, header, fact):
    path = entries.build(RECIPE, Builder(header)).directory / MANIFEST
    manifest = json.loads(path.read_text())
    manifest[fact] = manifest[fact][:-1] + chr(ord(manifest[fact][-1]) ^ 1)
    path.write_text(json.dumps(manifest, indent=1))
    assert entries.lookup(RECIPE) is None


def test_a_damaged_note_of_what_was_seen_is_no_harm(entries, header):
    entry = entries.build(RECIPE, Builder(header))
    for text in ("{", "[]", "{}", "null", "[[], 3]"):
        (entry.directory / SEEN).write_text(text)
        assert entries.lookup(RECIPE) == entry


def test_what_a_killed_builder_left_is_not_an_entry(entries, header):
    entry = entries.build(RECIPE, Builder(header))
    entry.directory.rename(entry.directory.with_name(".staging-abc"))
    assert entries.lookup(RECIPE) is None


# ---- several at once


def test_of_two_builders_at_once_one_builds(entries, header):
    builder = Builder(header, seconds=0.2)
    found: list[Entry] = []
    threads = [threading.Thread(target=lambda: found.append(entries.build(RECIPE, builder))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert builder.calls == 1
    assert len(found) == 3 and {entry.directory for entry in found} == {found[0].directory}


@pytest.mark.parametrize("error", [OSError(errno.ENOLCK, "No locks available"), NotImplementedError()])
def test_a_file_system_without_locks_builds(entries, header, monkeypatch, error):
    def refuse(self, **kwargs):
        raise error

    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
    assert entries.build(RECIPE, Builder(header)).shared_object.is_file()


def test_the_loser_of_a_race_without_locks_takes_what_is_there(entries, header, monkeypatch):
    monkeypatch.setattr(filelock.FileLock, "acquire", lambda self, **kwargs: (_ for _ in ()).throw(NotImplementedError))
    inner = Builder(header)

    def outer(staging: Path) -> Product:
        entries.build(RECIPE, inner)  # the other process is faster
        return Builder(header)(staging)

    entry = entries.build(RECIPE, outer)
    assert entries.lookup(RECIPE) == entry
    assert entry.shared_object.is_file()
    assert below(entries.root, ".staging*") == []
    assert below(entries.root, ".broken*") == []  # a whole entry is not set aside: another process may be opening it
