"""The cache: hits, misses, paths of entries, moved directories, and the state after errors."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support.fake_builder import RECIPE, Builder, below, loader_lookup, recipe_with_anchor, recipe_with_part, write

from tkjit.cache import DEPENDENCIES, MANIFEST, Product, Recipe
from tkjit.cache.recipe import digest_of
from tkjit.errors import TkjitError


def test_build_turns_a_miss_into_a_hit(entries, header):
    builder = Builder(header)
    assert entries.lookup(RECIPE) is None
    built = entries.build(RECIPE, builder)
    found = entries.lookup(RECIPE)
    assert found == built
    assert found.shared_object.read_bytes() == b"machine code struct gl {};"
    assert entries.build(RECIPE, builder) == built
    assert builder.calls == 1


def test_lookup_creates_nothing(entries):
    assert entries.lookup(RECIPE) is None
    assert not entries.root.exists()


def test_path_and_files_of_an_entry(entries, header):
    directory = entries.build(RECIPE, Builder(header)).directory
    assert directory.parent == entries.root / "v1/cpython-311/sm_90a" / f"gemm-{RECIPE.build_key[:16]}"
    assert {path.name for path in directory.iterdir()} == {
        *("launcher.cu", "launcher.so", "build.log"),
        *(MANIFEST, DEPENDENCIES),
    }


def test_manifest_records_the_inputs(entries, header):
    entry = entries.build(RECIPE, Builder(header))
    manifest = json.loads((entry.directory / MANIFEST).read_text())
    assert (manifest["name"], manifest["arch"], manifest["shared_object"]) == ("gemm", "sm_90a", "launcher.so")
    # the text is long, so the manifest has only its digest
    assert manifest["key"] == {"text": digest_of("int main() {}"), "flags": "-O3", "torch": "2.11"}
    assert manifest["tools"] == {"cxx": "g++ 12"}
    assert set(manifest["files"]) == {"launcher.cu", "launcher.so", "build.log", DEPENDENCIES}
    assert manifest["seconds"] == 1.5
    assert {**entry.manifest, "digest": manifest["digest"]} == manifest


@pytest.mark.parametrize(
    "changed",
    [
        replace(RECIPE, arch="sm_80"),
        replace(RECIPE, name="axpy"),
        *(recipe_with_part(name, text + " ") for name, text in RECIPE.parts),
        replace(RECIPE, parts=RECIPE.parts[:2]),
        replace(RECIPE, parts=(("flags", "int main() {}"), ("text", "-O3"), RECIPE.parts[2])),
        replace(RECIPE, tools=(("cxx", "g++ 13"),)),
        replace(RECIPE, tools=(("cxx", "g++ 12"), ("compiler", "nvcc 13"))),
        replace(RECIPE, tools=()),
    ],
)
def test_change_of_any_part_is_a_miss(entries, header, changed):
    built = entries.build(RECIPE, Builder(header))
    assert entries.lookup(changed) is None
    other = entries.build(changed, Builder(header))
    assert other.directory != built.directory
    assert entries.lookup(changed) == other and entries.lookup(RECIPE) == built


def test_other_abi_is_a_miss(entries, open_cache, header):
    entries.build(RECIPE, Builder(header))
    assert open_cache(abi="cpython-312").lookup(RECIPE) is None


@pytest.mark.parametrize("replacing", [False, True])
def test_entry_copied_to_another_path_is_not_used(entries, header, records_at_once, replacing):
    wrong = entries.build(recipe_with_part("flags", "-O0"), Builder(header)).directory
    place = entries.directory(RECIPE) / wrong.name
    if replacing:
        entries.build(RECIPE, Builder(header))
        assert loader_lookup(entries) is not None
        shutil.rmtree(place)
    shutil.copytree(wrong, place)
    assert loader_lookup(entries) is None
    builder = Builder(header)
    built = entries.build(RECIPE, builder)
    assert builder.calls == 1 and built.manifest["key"]["flags"] == "-O3"
    assert loader_lookup(entries) == built


# ---- anchors


def test_moved_anchor_is_a_hit(entries, header, tmp_path):
    old, new = header.parent, tmp_path / "elsewhere"
    built = entries.build(recipe_with_anchor(old), Builder(header))
    old.rename(new)
    assert entries.lookup(recipe_with_anchor(new)).directory == built.directory
    (new / "gl.h").write_text("edited")
    assert entries.lookup(recipe_with_anchor(new)) is None


@pytest.mark.parametrize("flag", ["-DHERE={}", "{}"])
def test_path_in_a_define_is_not_anchored(entries, header, tmp_path, flag):
    """The path is compiled into the binary, so another directory gives another binary."""

    def defining(directory: Path) -> Recipe:
        return recipe_with_part("flags", flag.format(directory), recipe_with_anchor(directory))

    entries.build(defining(header.parent), Builder(header))
    header.parent.rename(tmp_path / "elsewhere")
    assert entries.lookup(defining(tmp_path / "elsewhere")) is None


def test_entry_records_anchored_paths(entries, header):
    entry = entries.build(recipe_with_anchor(header.parent), Builder(header, search=(header.parent,)))
    recorded = "".join(path.read_text() for path in entry.directory.glob("*.json"))
    assert str(header.parent) not in recorded
    assert "<kernels>/gl.h" in recorded


def test_moved_directory_without_an_anchor_is_a_miss(entries, header, tmp_path):
    plain = replace(recipe_with_anchor(header.parent), anchors=())
    entries.build(plain, Builder(header))
    header.parent.rename(tmp_path / "elsewhere")
    assert entries.lookup(replace(recipe_with_anchor(tmp_path / "elsewhere"), anchors=())) is None


def test_header_path_that_contains_an_anchor_in_the_middle(entries, tmp_path):
    """For example, the path ``/usr/local/cuda`` contains the anchor ``/cuda``."""
    header = tmp_path / "usr/local/cuda/include/a.h"
    write(header, "one")
    recipe = replace(RECIPE, anchors=(("kernels", "/cuda"), ("other", "/local")))
    entry = entries.build(recipe, Builder(header))
    assert str(header) in (entry.directory / DEPENDENCIES).read_text()
    assert entries.lookup(recipe) == entry


def test_longest_matching_anchor_is_used():
    recipe = Recipe("a", "n", (), (("site", "/venv"), ("toolkit", "/venv/nvidia/cu13"), ("tkjit", "/venv/tkjit")))
    assert recipe.anchor("/venv/nvidia/cu13/include/a.h") == "<toolkit>/include/a.h"
    assert recipe.anchor("/venv/b.h") == "<site>/b.h"
    assert recipe.resolve("<toolkit>/include/a.h") == "/venv/nvidia/cu13/include/a.h"
    assert recipe.resolve("<toolkit>") == "/venv/nvidia/cu13"
    assert recipe.resolve("/usr/include/a.h") == "/usr/include/a.h"


def test_anchor_matches_only_whole_directory_names():
    recipe = Recipe("a", "n", (), (("tkjit", "/src/tkjit"),))
    for path in ("/src/tkjit-plugins/a.h", "/src/tkjit2/a.h", "/src/tkjit.old", "/src/tkjit~", "/usr/src/tkjit/a.h"):
        assert recipe.anchor(path) == path
    assert recipe.anchor("/src/tkjit") == "<tkjit>" and recipe.anchor("/src/tkjit/x") == "<tkjit>/x"
    assert recipe.anchor("/src/tkjit/src/tkjit") == "<tkjit>/src/tkjit"


def test_moved_cache_still_hits(entries, open_cache, header, tmp_path):
    entries.build(RECIPE, Builder(header))
    entries.root.rename(tmp_path / "moved")
    assert open_cache(tmp_path / "moved").lookup(RECIPE) is not None


# ---- failures


@pytest.mark.parametrize("error", [TkjitError("refused"), ValueError("a bug"), KeyboardInterrupt()])
def test_error_of_the_builder_propagates_and_leaves_nothing(entries, header, error):
    with pytest.raises(type(error)) as caught:
        entries.build(RECIPE, Builder(header, error=error))
    assert caught.value is error
    assert below(entries.root, ".staging*") == [] and below(entries.root, "launcher*") == []
    assert entries.lookup(RECIPE) is None
    assert entries.build(RECIPE, Builder(header)).shared_object.is_file()


@pytest.mark.parametrize("name", [".staging-0123456789ab-1-1-abcd", ".failed", ".broken-x", ".evicted-x"])
def test_name_with_a_leading_dot_is_not_an_entry(entries, header, name):
    entry = entries.build(RECIPE, Builder(header))
    entry.directory.rename(entry.directory.with_name(name))
    assert entries.lookup(RECIPE) is None


def test_stray_file_is_not_an_entry(entries, header):
    entry = entries.build(RECIPE, Builder(header))
    (entry.directory.parent / "README").write_text("hello")
    assert entries.lookup(RECIPE) == entry
    assert entries.build(recipe_with_part("flags", "-O1"), Builder(header)).shared_object.is_file()


def test_entry_evicted_during_a_lookup_does_not_hide_others(entries, header, monkeypatch):
    """Another process may evict an entry while this one searches for another."""
    entry = entries.build(RECIPE, Builder(header))
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: [*listed(path), "evicted"])
    assert entries.lookup(RECIPE) == entry


# ---- entries that cannot be loaded here


def test_unloadable_entry_is_replaced(entries, header):
    unloadable = entries.build(RECIPE, Builder(header))
    builder = Builder(header)
    entry = entries.build(RECIPE, builder, replacing=unloadable)
    assert builder.calls == 1
    assert entries.lookup(RECIPE) == entry
    assert len(below(entries.root, ".broken*")) == 1


def test_only_one_process_replaces_an_unloadable_entry(entries, open_cache, header, monkeypatch):
    from tkjit.cache import building

    unloadable = entries.build(RECIPE, Builder(header))
    first, second = Builder(header), Builder(header)
    hold_build_lock = building.hold_build_lock

    def later(*arguments, **options):
        monkeypatch.setattr(building, "hold_build_lock", hold_build_lock)
        entries.build(RECIPE, first, replacing=unloadable)  # another process gets the lock first
        return hold_build_lock(*arguments, **options)

    monkeypatch.setattr(building, "hold_build_lock", later)
    entry = open_cache().build(RECIPE, second, replacing=unloadable)
    assert (first.calls, second.calls) == (1, 0)
    assert entries.lookup(RECIPE) == entry


def test_latest_entry_is_tried_first(entries, header):
    builder = Builder(header)
    first = entries.build(RECIPE, builder).directory
    write(header, "struct lg {};")
    second = entries.build(RECIPE, builder).directory
    os.utime(first, (1, 1))
    assert entries.candidates(RECIPE) == [second, first]
    os.utime(second, (0, 0))
    assert entries.candidates(RECIPE) == [first, second]


def test_entry_may_have_no_dependencies(entries):
    built = entries.build(RECIPE, Builder())
    assert entries.lookup(RECIPE) == built


def test_facts_of_the_product_are_in_the_manifest(entries, header):
    def build(staging: Path) -> Product:
        Builder(header)(staging)
        return Product("launcher.so", (header,), {"registers": 40})

    entry = entries.build(RECIPE, build)
    assert entry.manifest["registers"] == 40 and entry.module == ""
