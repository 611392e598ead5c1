"""Corruption: a damaged byte of an entry causes exactly one rebuild."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.damage import drop_last_byte, flip_byte, flip_byte_keeping_time, make_empty, replace_by_a_list
from support.fake_builder import RECIPE, Builder, below, loader_lookup, write

from tkjit.cache import DEPENDENCIES, MANIFEST, DamagedError, building, bundle
from tkjit.cache.listing import list_entries

DAMAGES = (drop_last_byte, flip_byte, flip_byte_keeping_time, make_empty, replace_by_a_list, Path.unlink)


@pytest.mark.parametrize("name", ["launcher.so", MANIFEST, DEPENDENCIES])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_entry_is_a_miss_and_is_rebuilt(entries, header, name, damage):
    builder = Builder(header)
    damage(entries.build(RECIPE, builder).directory / name)
    assert entries.lookup(RECIPE) is None
    entry = entries.build(RECIPE, builder)
    assert builder.calls == 2
    assert entries.lookup(RECIPE) == entry
    assert entry.shared_object.read_bytes() == b"machine code struct gl {};"


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_list_of_dependencies_never_gives_a_wrong_hit(entries, header, records_at_once, damage):
    entry = entries.build(RECIPE, Builder(header))
    assert loader_lookup(entries) == entry
    damage(entry.directory / DEPENDENCIES)
    write(header, "edited")
    assert loader_lookup(entries) is None


def test_damage_to_any_byte_of_a_manifest_is_a_miss(entries, header):
    path = entries.build(RECIPE, Builder(header)).directory / MANIFEST
    whole = path.read_bytes()
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        assert entries.lookup(RECIPE) is None, position
        path.write_bytes(whole[:position])
        assert entries.lookup(RECIPE) is None, position
    path.write_bytes(whole)
    assert entries.lookup(RECIPE) is not None


FLIPS = st.integers(1, 255)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from([MANIFEST, "launcher.so"]),
    position=st.integers(0, 10**6),
    flipped=st.one_of(st.none(), FLIPS),
    looked_up_before=st.booleans(),
)
@example(name="launcher.so", position=0, flipped=None, looked_up_before=True)
@example(name=MANIFEST, position=0, flipped=None, looked_up_before=True)
def test_any_damage_causes_one_rebuild(entries, header, name, position, flipped, looked_up_before):
    builder = Builder(header)
    entry = entries.build(RECIPE, builder)  # after the first example, this finds the entry that the last one rebuilt
    if looked_up_before:
        assert loader_lookup(entries) == entry
    path = entry.directory / name
    content = bytearray(path.read_bytes())
    position %= len(content)
    if flipped is None:
        del content[position:]
    else:
        content[position] ^= flipped
    path.write_bytes(content)

    assert loader_lookup(entries) is None
    calls = builder.calls
    rebuilt = entries.build(RECIPE, builder)
    assert builder.calls == calls + 1
    assert len(below(entries.root, f"{building.BROKEN}*")) == 1
    assert loader_lookup(entries) == rebuilt
    assert rebuilt.shared_object.read_bytes() == b"machine code struct gl {};"
    assert entries.build(RECIPE, builder) == rebuilt and builder.calls == calls + 1


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from([MANIFEST, DEPENDENCIES, "launcher.so", "launcher.cu", "build.log"]),
    position=st.integers(0, 10**6),
    flipped=st.one_of(st.none(), FLIPS),
)
def test_damage_to_any_file_is_found(entries, header, name, position, flipped):
    entry = entries.lookup(RECIPE) or entries.build(RECIPE, Builder(header))
    assert bundle.verify(entries.root) == (list_entries(entries.root), [])
    path = entry.directory / name
    whole = path.read_bytes()
    position %= len(whole)
    path.write_bytes(
        whole[:position] + (bytes([whole[position] ^ flipped]) + whole[position + 1 :] if flipped else b"")
    )
    (one,), (problem,) = bundle.verify(entries.root)
    assert one.damage() == [problem] and str(path) in problem
    path.write_bytes(whole)


@pytest.mark.parametrize("name", [MANIFEST, DEPENDENCIES, "launcher.so", "launcher.cu", "build.log"])
def test_missing_file_is_found(entries, header, name):
    path = entries.build(RECIPE, Builder(header)).directory / name
    path.unlink()
    _, (problem,) = bundle.verify(entries.root)
    assert str(path) in problem and "cannot be read" in problem


def test_only_the_last_damaged_entry_is_kept(entries, header):
    builder = Builder(header)
    for calls in (1, 2, 3):
        entry = entries.build(RECIPE, builder)
        assert builder.calls == calls
        assert entries.lookup(RECIPE) == entry
        assert len(below(entries.root, ".broken*")) == min(calls - 1, 1)
        flip_byte(entry.shared_object)


def test_damaged_entry_that_cannot_be_moved_does_not_hide_the_new_one(entries, header, monkeypatch):
    builder = Builder(header)
    bad = entries.build(RECIPE, builder)
    flip_byte(bad.shared_object)
    rename = Path.rename

    def refuse(path, target):
        if path == bad.directory:
            raise OSError(16, "Device or resource busy")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    entry = entries.build(RECIPE, builder)
    assert entry.directory != bad.directory
    assert entries.lookup(RECIPE) == entry and entry.shared_object.read_bytes() == b"machine code struct gl {};"


@pytest.mark.parametrize("fact", ["module", "shared_object"])
def test_manifest_with_a_changed_fact_is_a_miss(entries, header, fact):
    path = entries.build(RECIPE, Builder(header)).directory / MANIFEST
    manifest = json.loads(path.read_text())
    manifest[fact] = manifest[fact][:-1] + chr(ord(manifest[fact][-1]) ^ 1)
    path.write_text(json.dumps(manifest, indent=1))
    assert entries.lookup(RECIPE) is None


def test_damaged_manifest_is_not_shown(entries, header):
    entry = entries.build(RECIPE, Builder(header))
    flip_byte(entry.directory / MANIFEST)
    with pytest.raises(DamagedError, match=MANIFEST):
        entry.manifest  # noqa: B018
    assert [listed.manifest for listed in list_entries(entries.root)] == [{}]
