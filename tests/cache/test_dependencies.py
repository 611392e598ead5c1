"""Dependencies of a build: edited headers, edits during a build, and headers that hide others."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from support.fake_builder import (
    RECIPE,
    Builder,
    below,
    let_the_clock_tick,
    loader_lookup,
    machine_code,
    recipe_with_anchor,
    write,
)

from tkjit.cache import Product, building, fingerprints
from tkjit.cache.entry import TAIL_PARTS
from tkjit.errors import CacheError


@pytest.fixture(params=["compared", "noted"])
def find(request, entries):
    """Returns a function that looks up an entry, either by a full comparison or by a warm record first."""
    if request.param == "compared":
        return entries.lookup
    request.getfixturevalue("records_at_once")
    return lambda recipe: loader_lookup(entries, recipe)


# ---- edits between two calls


def test_edited_dependency_is_a_miss_and_both_builds_are_kept(entries, header, find):
    builder = Builder(header)
    first = entries.build(RECIPE, builder)
    assert find(RECIPE) == first
    write(header, "struct lg {};")
    assert find(RECIPE) is None
    second = entries.build(RECIPE, builder)
    assert second.directory.parent == first.directory.parent and second != first
    assert second.shared_object.read_bytes() == b"machine code struct lg {};"
    assert find(RECIPE) == second
    write(header, "struct gl {};")
    assert find(RECIPE) == first
    assert builder.calls == 2


def test_edit_that_keeps_size_and_time_is_noticed(entries, header, find):
    built = entries.build(RECIPE, Builder(header))
    assert find(RECIPE) == built
    before = header.stat()
    header.write_text("struct lg {};")
    os.utime(header, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert find(RECIPE) is None


def test_replacement_with_the_same_size_and_time_is_noticed(entries, header, find):
    built = entries.build(RECIPE, Builder(header))
    assert find(RECIPE) == built
    other = header.with_name("other.h")
    other.write_text("struct lg {};")
    os.utime(other, ns=(header.stat().st_atime_ns, header.stat().st_mtime_ns))
    other.replace(header)
    assert find(RECIPE) is None


def test_removed_dependency_is_a_miss(entries, header, find):
    built = entries.build(RECIPE, Builder(header))
    assert find(RECIPE) == built
    header.unlink()
    assert find(RECIPE) is None


def test_touched_or_identically_rewritten_dependency_is_a_hit(entries, header, find):
    built = entries.build(RECIPE, Builder(header))
    os.utime(header, ns=(1, 1))
    assert find(RECIPE) == built
    content = header.read_text()
    header.unlink()
    header.write_text(content)
    assert find(RECIPE) == built


def test_relinked_library_is_a_miss(entries, header, tmp_path, find):
    versions = [tmp_path / f"lib/libfoo.so.{number}" for number in (1, 2)]
    for path in versions:
        write(path, f"code of {path.name}")
    library = tmp_path / "lib/libfoo.so"
    library.symlink_to(versions[0])
    built = entries.build(RECIPE, Builder(header, library))
    assert find(RECIPE) == built
    library.unlink()
    library.symlink_to(versions[1])
    assert find(RECIPE) is None


# ---- edits during the build


@pytest.mark.parametrize("edit", ["content", "shadow"])
def test_edit_of_a_header_during_publishing_is_noticed(entries, header, tmp_path, monkeypatch, edit):
    """The fingerprint must describe the inputs at the time of the build, not at the time of publishing."""
    first = tmp_path / "first"
    first.mkdir()
    let_the_clock_tick(first)
    publish = building._publish

    def then_edit(*arguments):
        entry = publish(*arguments)
        write(header if edit == "content" else first / header.name, "struct edited {};")
        return entry

    monkeypatch.setattr(building, "_publish", then_edit)
    built = entries.build(RECIPE, Builder(header, search=(first, header.parent)))
    assert os.fsencode(header) in built.fingerprint and os.fsencode(built.shared_object) in built.fingerprint
    assert not fingerprints.unchanged(built.fingerprint)
    assert entries.lookup(RECIPE) is None


def test_fingerprint_of_a_new_entry_equals_that_of_a_lookup(entries, header, tmp_path):
    built = entries.build(RECIPE, Builder(header, search=(header.parent, tmp_path)))
    assert sorted(built.fingerprint.splitlines()) == sorted(entries.lookup(RECIPE).fingerprint.splitlines())


@pytest.mark.parametrize("hours", [-24, -1, 0, 1, 24])
def test_clock_change_does_not_hide_an_edit_during_the_build(entries, header, monkeypatch, hours):
    """By the clock at the start of the build, the edit may seem older than the build."""
    clock, shift = building._filesystem_time_ns, [-hours * 3600 * 10**9, 0]
    monkeypatch.setattr(
        building, "_filesystem_time_ns", lambda staging: clock(staging) + (shift.pop(0) if shift else 0)
    )
    texts = iter(["struct edited {};"])

    def edit() -> None:
        for text in texts:
            write(header, text)

    builder = Builder(header, during=edit)
    entry = entries.build(RECIPE, builder)
    assert builder.calls == 2
    assert entry.shared_object.read_bytes() == machine_code(header) == b"machine code struct edited {};"


def test_header_edited_during_compilation_is_compiled_again(entries, header):
    texts = iter(["struct edited {};"])

    def edit() -> None:
        for text in texts:
            header.write_text(text)

    builder = Builder(header, during=edit)
    entry = entries.build(RECIPE, builder)
    assert builder.calls == 2
    assert entry.shared_object.read_bytes() == machine_code(header) == b"machine code struct edited {};"
    assert entries.lookup(RECIPE) == entry
    assert below(entries.root, ".staging*") == []


def test_header_replaced_during_compilation_is_compiled_again(entries, header):
    """The new file's modification time is old, so it does not reveal the replacement."""
    other = header.with_name("new.h")
    write(other, "struct other {};")
    os.utime(other, ns=(1, 1))
    builder = Builder(header, during=lambda: other.exists() and other.replace(header))
    entry = entries.build(RECIPE, builder)
    assert builder.calls == 2
    assert entry.shared_object.read_bytes() == b"machine code struct other {};"


def swap_links(directory: Path) -> None:
    (directory / "link").symlink_to(directory / "next")
    (directory / "link").replace(directory / "include")


def swap_directories(directory: Path) -> None:
    (directory / "include").rename(directory / "old")
    (directory / "next").rename(directory / "include")


@pytest.mark.parametrize("swap", [swap_links, swap_directories])
def test_directory_swapped_during_compilation_is_compiled_again(entries, tmp_path, swap):
    """Switching a release or moving a checkout swaps a directory, but its files keep their times."""
    for name in ("first", "next"):
        write(tmp_path / name / "sub/a.h", name)
    if swap is swap_links:
        (tmp_path / "include").symlink_to(tmp_path / "first")
    else:
        (tmp_path / "first").rename(tmp_path / "include")
    let_the_clock_tick(tmp_path / "include")
    header, swaps = tmp_path / "include/sub/a.h", [swap]
    builder = Builder(header, during=lambda: swaps and swaps.pop()(tmp_path))
    entry = entries.build(RECIPE, builder)
    assert builder.calls == 2
    assert entry.shared_object.read_bytes() == machine_code(header) == b"machine code next"
    assert entries.lookup(RECIPE) == entry


def test_new_file_next_to_a_header_does_not_cause_another_compilation(entries, header):
    builder = Builder(header, during=lambda: [(place / "new").write_text("") for place in header.parents[:2]])
    entries.build(RECIPE, builder)
    assert builder.calls == 1


def test_header_that_vanishes_and_reappears_is_compiled_again(entries, header):
    content = header.read_text()
    builder = Builder(header)

    def build(staging: Path) -> Product:
        if not header.exists():
            header.write_text(content)
        product = builder(staging)
        if builder.calls == 1:
            header.unlink()
        return product

    entry = entries.build(RECIPE, build)
    assert builder.calls > 1
    assert entry.shared_object.read_bytes() == machine_code(header)
    assert entries.lookup(RECIPE) == entry


@pytest.mark.parametrize("event", [Path.unlink, lambda path: path.write_text("struct late {};")], ids=["goes", "edit"])
def test_header_that_changes_while_it_is_hashed_is_compiled_again(entries, header, monkeypatch, event):
    content, compare, events = header.read_text(), fingerprints.digest_of_file, [event]
    builder = Builder(header)

    def change_before(path):
        if str(path) == str(header) and events:
            events.pop()(header)
        return compare(path)

    def build(staging: Path) -> Product:
        header.exists() or header.write_text(content)
        return builder(staging)

    monkeypatch.setattr(fingerprints, "digest_of_file", change_before)
    entry = entries.build(RECIPE, build)
    assert builder.calls > 1
    assert entry.shared_object.read_bytes() == machine_code(header)
    assert entries.lookup(RECIPE) == entry


def test_header_that_always_changes_is_an_error(entries, header):
    numbers = itertools.count()
    builder = Builder(header, during=lambda: header.write_text(f"int now = {next(numbers)};"))
    with pytest.raises(CacheError, match="gemm for sm_90a: a file that it includes changed each time it was compiled"):
        entries.build(RECIPE, builder, what="gemm for sm_90a")
    assert builder.calls == building.ATTEMPTS
    assert below(entries.root, ".staging*") == [] and below(entries.root, "launcher*") == []


def test_header_with_a_future_time_does_not_loop(entries, header, monkeypatch):
    """A file can have a future time if it is on a server whose clock is ahead of ours."""
    state_of = fingerprints.state_of

    def ahead(path):
        size, mtime, ctime, inode = state_of(path).split()
        return b"%b %b %d %b" % (size, mtime, int(ctime) + 3600 * 10**9, inode)

    monkeypatch.setattr(
        fingerprints, "state_of", lambda path: ahead(path) if str(path) == str(header) else state_of(path)
    )
    builder = Builder(header)
    entry = entries.build(RECIPE, builder)
    assert builder.calls == 2
    assert entries.lookup(RECIPE) == entry


def test_headers_older_than_the_build_are_compiled_once(entries, header, tmp_path):
    (tmp_path / "link").symlink_to(header.parent)
    write(tmp_path / "later", "")
    builder = Builder(header, tmp_path / "link/gl.h")
    entries.build(RECIPE, builder)
    assert builder.calls == 1


# ---- new files that hide headers


@pytest.fixture
def places(tmp_path) -> tuple[Path, Path]:
    """Returns two directories of the include path, the second of which contains ``sub/a.h``."""
    write(tmp_path / "second/sub/a.h", "the second's")
    (tmp_path / "first").mkdir()
    return tmp_path / "first", tmp_path / "second"


def test_new_file_that_hides_a_header_is_a_miss_until_it_is_removed(entries, places, find):
    first, second = places
    builder = Builder(second / "sub/a.h", search=places)
    built = entries.build(RECIPE, builder)
    assert find(RECIPE) == built
    write(first / "sub/a.h", "the first's")
    assert find(RECIPE) is None
    (first / "sub/a.h").unlink()
    assert find(RECIPE) == built
    (first / "a.h").write_text("an include of a.h may find this one")
    assert find(RECIPE) is None


@pytest.mark.parametrize("existing", ["first", "first/sub"])
def test_new_files_that_hide_nothing_are_hits(entries, places, tmp_path, existing, find):
    (tmp_path / existing).mkdir(exist_ok=True)
    built = entries.build(RECIPE, Builder(places[1] / "sub/a.h", search=places))
    assert find(RECIPE) == built
    write(tmp_path / existing / "b.h", "")
    (tmp_path / "first/a.h").mkdir()
    assert find(RECIPE) == built


def test_new_directory_of_the_include_path_is_noticed(entries, places, tmp_path, find):
    absent = tmp_path / "absent"
    built = entries.build(RECIPE, Builder(places[1] / "sub/a.h", search=(absent, *places)))
    assert find(RECIPE) == built
    write(absent / "sub/a.h", "")
    assert find(RECIPE) is None


def test_removal_of_a_recorded_shadow_is_a_miss(entries, places, find):
    first, second = places
    (first / "a.h").write_text("existed during the build, but was not read")
    built = entries.build(RECIPE, Builder(second / "sub/a.h", search=places))
    assert find(RECIPE) == built
    (first / "a.h").unlink()
    assert find(RECIPE) is None


def test_new_file_next_to_a_kernels_own_header_hides_others(entries, header, tmp_path, find):
    """The compiler looks for a quoted include next to the including file, before all other directories."""
    system = tmp_path / "system/tiles.h"
    write(system, "the machine's")
    recipe = recipe_with_anchor(header.parent)
    built = entries.build(recipe, Builder(header, system))
    assert find(recipe) == built
    (header.parent / "tiles.h").write_text("mine")
    assert find(recipe) is None


def test_shadows_of_long_includes_are_noticed(entries, tmp_path, find):
    deep = Path(*(f"d{number}" for number in range(TAIL_PARTS - 1)), "a.h")
    write(tmp_path / "second" / deep, "")
    (tmp_path / "first" / deep).parent.mkdir(parents=True)
    search = (tmp_path / "first", tmp_path / "second")
    built = entries.build(RECIPE, Builder(tmp_path / "second" / deep, search=search))
    assert find(RECIPE) == built
    (tmp_path / "first" / deep).write_text("")
    assert find(RECIPE) is None
