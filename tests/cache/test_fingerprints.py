"""Warm records: they save work, and detect every change of an input file."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest
from support.damage import drop_last_byte, flip_byte, make_empty
from support.fake_builder import (
    RECIPE,
    Builder,
    let_the_clock_tick,
    loader_lookup,
    recipe_with_anchor,
    recipe_with_part,
    records_of,
)

from tkjit.cache import entry as entry_module
from tkjit.cache import fingerprints


@pytest.fixture
def no_reading(monkeypatch):
    """Returns a function; after it is called, reading the content of any file fails the test."""

    def forbid() -> None:
        for module in (entry_module, fingerprints):
            monkeypatch.setattr(module, "digest_of_file", lambda path: pytest.fail(f"{path} is read"))

    return forbid


def test_warm_hit_reads_no_file(entries, header, records_at_once, no_reading):
    built = entries.build(RECIPE, Builder(header))
    assert loader_lookup(entries) == built
    no_reading()
    assert loader_lookup(entries) == built


def test_touched_dependency_is_read_once(entries, header, records_at_once, no_reading):
    built = entries.build(RECIPE, Builder(header))
    os.utime(header, ns=(1, 1))
    assert loader_lookup(entries) == built
    no_reading()
    assert loader_lookup(entries) == built


def test_lookup_without_a_warm_key_writes_no_record(entries, header, records_at_once):
    entries.build(RECIPE, Builder(header))
    entries.lookup(RECIPE)
    assert records_of(entries) == [] and entries.warm_lookup("gemm") is None


def test_file_used_for_the_recipe_is_an_input(entries, header, tmp_path, records_at_once):
    """The rendered text contains the source, so the source must be unchanged if no text is rendered."""
    source = tmp_path / "gemm.cu"
    source.write_text("one")
    built = entries.build(RECIPE, Builder(header))
    let_the_clock_tick(source)
    inputs = fingerprints.of([str(source)])
    assert entries.lookup(RECIPE, warm_key="gemm", inputs=inputs) == built
    assert entries.warm_lookup("gemm") == built
    source.write_text("two")
    assert entries.warm_lookup("gemm") is None
    # the inputs were fingerprinted before the recipe was made, so an edit in between does not match
    assert entries.lookup(RECIPE, warm_key="gemm", inputs=inputs) == built
    assert entries.warm_lookup("gemm") is None


def test_record_of_several_entries_and_further_content(entries, header, records_at_once):
    glue, launcher = (entries.build(recipe_with_part("text", name), Builder(header)) for name in ("glue", "launcher"))
    entries.write_record("both", [glue, launcher], fingerprints.of([str(header)]) * 2, [1, "more"])
    noted = entries.read_record("both")
    assert noted.entries == [glue, launcher] and noted.more == [1, "more"]
    assert noted.fingerprint == fingerprints.of([str(header)]), "each file must appear once"
    assert entries.read_record("none") is None


def test_records_are_compared_by_the_replaceable_function(entries, header, records_at_once):
    built = entries.build(RECIPE, Builder(header))
    assert loader_lookup(entries) == built
    asked = []
    entries.unchanged = lambda lines: bool(asked.append(lines)) or fingerprints.unchanged(lines)
    assert loader_lookup(entries) == built
    assert len(asked) == 1 and os.fsencode(header) in asked[0]


def test_no_record_is_written_for_a_file_that_has_just_changed(entries, header):
    """The file could change again within the same tick of the clock, which would not alter its times."""
    built = entries.build(RECIPE, Builder(header))
    assert loader_lookup(entries) == built
    assert records_of(entries) == []
    time.sleep(fingerprints.SETTLED_NS / 1e9 + 0.01)
    assert loader_lookup(entries) == built
    assert len(records_of(entries)) == 1


@pytest.mark.parametrize(
    "age_ns, noted", [(fingerprints.SETTLED_NS - 10**6, False), (fingerprints.SETTLED_NS + 10**6, True)]
)
@pytest.mark.parametrize("stamp", [1, 2], ids=["mtime", "ctime"])
def test_minimum_age_of_a_recorded_file(tmp_path, monkeypatch, age_ns, noted, stamp):
    now = 10**18
    monkeypatch.setattr(time, "time_ns", lambda: now)
    numbers = [13, 5, 7, 99]
    numbers[stamp] = now - age_ns
    lines = b"1 2 3 4 /old\n%d %d %d %d /young\n" % tuple(numbers)
    fingerprints.write_record(tmp_path / "note", [["entry", "a.so", ""]], lines)
    assert (fingerprints.read_record(tmp_path / "note") == ([["entry", "a.so", ""]], lines)) == noted


def test_file_that_changes_while_it_is_compared_is_compared_again(entries, header, records_at_once, monkeypatch):
    entries.build(RECIPE, Builder(header))
    compare = fingerprints.digest_of_file

    def edit_afterwards(path):
        digest = compare(path)
        if str(path) == str(header):
            header.write_text("struct lg {};")
        return digest

    with monkeypatch.context() as patch:
        patch.setattr(fingerprints, "digest_of_file", edit_afterwards)
        loader_lookup(entries)
    assert loader_lookup(entries) is None


@pytest.mark.parametrize("name", ["launcher.so", "manifest.json"])
@pytest.mark.parametrize("damage", [flip_byte, drop_last_byte, make_empty, Path.unlink])
def test_record_does_not_hide_damage(entries, header, records_at_once, name, damage):
    built = entries.build(RECIPE, Builder(header))
    assert loader_lookup(entries) == built
    let_the_clock_tick(built.directory / name)
    damage(built.directory / name)
    assert loader_lookup(entries) is None


def test_record_of_a_missing_entry_is_a_miss(entries, header, records_at_once):
    built = entries.build(RECIPE, Builder(header))
    assert loader_lookup(entries) == built
    built.directory.rename(entries.root / "gone")
    assert loader_lookup(entries) is None


def test_each_checkout_has_its_own_record(entries, header, tmp_path, records_at_once):
    other = tmp_path / "other"
    other.mkdir()
    (other / "gl.h").write_text("struct other {};")
    built = entries.build(recipe_with_anchor(header.parent), Builder(header))
    assert loader_lookup(entries, recipe_with_anchor(header.parent)) == built
    assert loader_lookup(entries, recipe_with_anchor(other)) is None
    (other / "gl.h").write_text(header.read_text())
    assert loader_lookup(entries, recipe_with_anchor(other)) == built
    assert len(records_of(entries)) == 2


def test_damage_to_any_byte_of_a_record_is_harmless(entries, header, records_at_once):
    built = entries.build(RECIPE, Builder(header, search=(header.parent,)))
    assert loader_lookup(entries) == built
    (note,) = records_of(entries)
    whole = note.read_bytes()
    for position in range(len(whole)):
        note.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        assert entries.warm_lookup(note.name) in (None, built), position
        note.write_bytes(whole[:position])
        assert entries.warm_lookup(note.name) is None, position
    assert loader_lookup(entries) == built


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", "3", "[[], 3]\n", '["/tmp", "x.so", "", 0]\n', "\xff\n"])
def test_invalid_record_is_replaced(entries, header, records_at_once, text):
    built = entries.build(RECIPE, Builder(header))
    loader_lookup(entries)
    (note,) = records_of(entries)
    note.write_text(text)
    assert fingerprints.read_record(note) is None
    assert loader_lookup(entries) == built


def test_path_with_a_line_break_is_compared_each_time(entries, tmp_path, records_at_once):
    header = tmp_path / "a\nb.h"
    header.write_text("one")
    built = entries.build(RECIPE, Builder(header))
    assert loader_lookup(entries) == built
    header.write_text("two")
    assert loader_lookup(entries) is None


def test_unwritable_record_is_not_an_error(entries, header, records_at_once, monkeypatch):
    built = entries.build(RECIPE, Builder(header))
    opened = os.open

    def refuse(path, flags, *mode, **options):
        if flags & os.O_WRONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return opened(path, flags, *mode, **options)

    monkeypatch.setattr(os, "open", refuse)
    assert loader_lookup(entries) == built
    assert records_of(entries) == []


def test_format_of_a_fingerprint_line(tmp_path):
    """The runtime reads this format as well."""
    path = tmp_path / "a b.h"
    path.write_text("three")
    status = path.stat()
    numbers = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    assert fingerprints.of([str(path)]).decode() == " ".join(map(str, numbers)) + f" {path}\n"


def test_appearance_of_a_missing_file_is_a_change(tmp_path):
    absent = tmp_path / "absent"
    lines = fingerprints.of([str(absent), str(tmp_path)])
    assert lines.startswith(fingerprints.ABSENT + b" ") and fingerprints.unchanged(lines)
    absent.write_text("")
    assert not fingerprints.unchanged(lines)
    assert fingerprints.state_of("a\0b") == fingerprints.ABSENT


def test_unchanged_headers_are_read_once(header, monkeypatch):
    time.sleep(2 * fingerprints.SETTLED_NS / 1e9)
    first = fingerprints.digest_of_file(str(header))
    with monkeypatch.context() as patch:
        patch.setattr(fingerprints.recipe, "digest_of_file", lambda path: pytest.fail(f"{path} is read again"))
        assert fingerprints.digest_of_file(str(header)) == first
    header.write_text("struct lg {};")
    assert fingerprints.digest_of_file(str(header)) != first
