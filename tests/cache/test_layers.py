"""Layers and bundles: using entries of another machine, even on one without compilers."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support.damage import flip_byte, make_empty
from support.fake_builder import (
    RECIPE,
    Builder,
    below,
    let_the_clock_tick,
    loader_lookup,
    recipe_with_anchor,
    recipe_with_part,
    records_of,
    write,
)

from tkjit.cache import DEPENDENCIES, MANIFEST, DamagedError, bundle
from tkjit.cache.bundle import BUNDLE
from tkjit.cli import main
from tkjit.errors import CacheError

HERE = replace(RECIPE, tools=None)  # the same kernel on a machine without compilers


def state(root: Path) -> dict[str, tuple[int, ...]]:
    """Return every file and directory with its size and times."""
    paths = [root, *root.rglob("*")]
    return {str(path): (s.st_size, s.st_mtime_ns, s.st_ctime_ns) for path in paths for s in [path.stat()]}


@pytest.fixture
def layer(open_cache, tmp_path):
    return open_cache(tmp_path / "layer")


@pytest.fixture
def own(open_cache, tmp_path, layer):
    """Opens a cache with a layer."""
    return open_cache(tmp_path / "own", layers=[layer.root])


# ---- lookup


def test_hit_in_a_layer_writes_nothing_there(own, layer, header, records_at_once):
    built = layer.build(RECIPE, Builder(header))
    os.utime(built.directory, (1, 1))  # its last use is long ago
    before = state(layer.root)
    for _ in range(2):
        assert loader_lookup(own) == built
    assert state(layer.root) == before
    assert len(records_of(own)) == 1 and records_of(layer) == []
    builder = Builder(header)
    assert own.build(RECIPE, builder) == built and builder.calls == 0


def test_miss_in_a_layer_is_built_in_the_own_cache(own, layer, header):
    layer.build(RECIPE, Builder(header))
    before = state(layer.root)
    entry = own.build(recipe_with_part("flags", "-O0"), Builder(header))
    assert entry.directory.is_relative_to(own.root)
    assert state(layer.root) == before


def test_first_layer_with_the_entry_is_used(open_cache, layer, header, tmp_path):
    second = open_cache(tmp_path / "second")
    own = open_cache(tmp_path / "own")
    in_own, in_second = own.build(RECIPE, Builder(header)), second.build(RECIPE, Builder(header))
    of_both = open_cache(own.root, layers=[layer.root, second.root])
    assert of_both.lookup(RECIPE) == in_second
    in_first = layer.build(RECIPE, Builder(header))
    assert of_both.lookup(RECIPE) == in_first
    assert own.lookup(RECIPE) == in_own


def test_layer_works_without_compilers_and_their_headers(own, layer, header):
    built = layer.build(RECIPE, Builder(header))
    header.unlink()
    assert own.lookup(HERE) == built
    assert own.lookup(replace(RECIPE, tools=(("cxx", "g++ 14"),))) == built
    assert own.lookup(replace(HERE, parts=(*RECIPE.parts[:2], ("torch", "2.12")))) is None


def test_only_the_kernels_own_headers_are_compared_in_a_layer(own, layer, header, tmp_path, records_at_once):
    system = tmp_path / "system/cuda.h"
    write(system, "old")
    recipe = recipe_with_anchor(header.parent)
    built = layer.build(recipe, Builder(header, system))
    here = replace(recipe, tools=None)
    assert loader_lookup(own, here) == built
    write(system, "new")
    assert loader_lookup(own, here) == built
    write(header, "struct lg {};")
    assert loader_lookup(own, here) is None
    header.unlink()  # a machine that uses a layer may lack even these headers
    assert loader_lookup(own, here) == built


def test_existing_entries_are_used_without_compilers(entries, header):
    built = entries.build(RECIPE, Builder(header))
    header.unlink()
    assert entries.lookup(RECIPE) is None
    assert entries.lookup(HERE) == built


def test_damaged_entry_of_a_layer_is_skipped(own, layer, header):
    flip_byte(layer.build(RECIPE, Builder(header)).shared_object)
    before = state(layer.root)
    assert own.lookup(RECIPE) is None
    entry = own.build(RECIPE, Builder(header))
    assert entry.directory.is_relative_to(own.root) and own.lookup(RECIPE) == entry
    assert state(layer.root) == before


def test_unloadable_entry_of_a_layer_is_built_once(own, layer, header, open_cache, records_at_once):
    unloadable = layer.build(RECIPE, Builder(header))
    assert loader_lookup(own) == unloadable
    before = state(layer.root)
    builder = Builder(header)
    entry = own.build(RECIPE, builder, replacing=unloadable)
    assert entry.directory.is_relative_to(own.root)
    # the next process finds the unloadable entry first
    assert own.lookup(RECIPE, exclude=unloadable) == entry
    assert own.build(RECIPE, builder, replacing=unloadable) == entry
    assert builder.calls == 1
    assert state(layer.root) == before


def test_missing_layer_is_ignored(open_cache, header, tmp_path):
    cache = open_cache(layers=[tmp_path / "absent"])
    assert cache.lookup(RECIPE) is None
    assert cache.build(RECIPE, Builder(header)) == cache.lookup(RECIPE)
    assert not (tmp_path / "absent").exists()


# ---- bundles


@pytest.fixture
def bundled(layer, header, tmp_path) -> Path:
    """Makes a bundle of one entry, and moves it after it was written."""
    entry = layer.build(recipe_with_anchor(header.parent), Builder(header))
    # the entry is listed twice, as glue is if several kernels share it
    size = bundle.write(tmp_path / "made", [entry, entry], {"torch": "2.11"})
    assert size == sum(path.stat().st_size for path in (tmp_path / "made").rglob("*") if path.is_file())
    (tmp_path / "made").rename(tmp_path / "moved")
    shutil.rmtree(layer.root)
    return tmp_path / "moved"


def manifest_of(bundled: Path) -> Path:
    (path,) = bundled.rglob(MANIFEST)
    return path


def test_moved_bundle_works(open_cache, bundled, header, tmp_path):
    header.parent.rename(tmp_path / "other")
    cache = open_cache(layers=[bundled])
    entry = cache.lookup(replace(recipe_with_anchor(tmp_path / "other"), tools=None))
    assert entry.directory.is_relative_to(bundled)
    assert entry.shared_object.read_bytes() == b"machine code struct gl {};"
    entries, problems = bundle.verify(bundled)
    assert ([one.directory for one in entries], problems) == ([entry.directory], [])


def test_bundle_lists_its_files(bundled):
    listed = json.loads((bundled / BUNDLE).read_text())
    assert listed["torch"] == "2.11"
    files = {str(path.relative_to(bundled)) for path in bundled.rglob("*") if path.is_file()}
    assert set(listed["files"]) == files - {BUNDLE}
    assert {path.name for path in map(Path, files)} >= {MANIFEST, DEPENDENCIES, "launcher.so", "launcher.cu"}


def sign_anew(path: Path) -> None:
    """Change an entry, and update its own digest."""
    from tkjit.cache import checked_json
    from tkjit.cache.entry import MANIFEST, read_manifest

    checked_json.write(path.parent / MANIFEST, {**read_manifest(path.parent), "module": "another"})


@pytest.mark.parametrize("damage", [flip_byte, make_empty, Path.unlink, sign_anew])
def test_changed_entry_of_a_bundle_is_not_used(open_cache, bundled, header, damage):
    damage(manifest_of(bundled))
    assert open_cache(layers=[bundled]).lookup(recipe_with_anchor(header.parent)) is None
    assert any(MANIFEST in problem for problem in bundle.verify(bundled)[1])


@pytest.mark.parametrize(
    "damage", [flip_byte, make_empty, lambda path: path.write_text("[]"), lambda path: path.write_text("{}")]
)
def test_bundle_with_a_damaged_list_is_not_used(open_cache, bundled, header, damage):
    damage(bundled / BUNDLE)
    assert open_cache(layers=[bundled]).lookup(recipe_with_anchor(header.parent)) is None
    _, problems = bundle.verify(bundled)
    assert len(problems) == 1 and BUNDLE in problems[0]


def test_warm_record_does_not_hide_a_change_of_a_bundle(open_cache, bundled, header, records_at_once):
    cache = open_cache(layers=[bundled])
    recipe = recipe_with_anchor(header.parent)
    let_the_clock_tick(manifest_of(bundled))
    assert loader_lookup(cache, recipe) is not None
    sign_anew(manifest_of(bundled))
    assert loader_lookup(cache, recipe) is None


def test_entry_added_to_a_bundle_is_not_used(open_cache, bundled, header):
    unbundled = open_cache(bundled).build(recipe_with_part("flags", "-O0"), Builder(header))
    assert open_cache(layers=[bundled]).lookup(recipe_with_part("flags", "-O0")) is None
    _, problems = bundle.verify(bundled)
    assert f"{unbundled.directory / MANIFEST} was not bundled" in problems


@pytest.mark.parametrize("name", ["launcher.so", "launcher.cu", "build.log", DEPENDENCIES, MANIFEST])
def test_every_file_of_a_bundle_is_verified(bundled, name):
    path = manifest_of(bundled).with_name(name)
    flip_byte(path)
    assert f"{path} is not the file that was bundled" in bundle.verify(bundled)[1]
    path.unlink()
    assert any(str(path) in problem and "cannot be read" in problem for problem in bundle.verify(bundled)[1])


def test_only_bundles_are_overwritten(layer, header, tmp_path):
    entry = layer.build(RECIPE, Builder(header))
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/chapter.tex").write_text("precious")
    (tmp_path / "file").write_text("precious")
    for name in ("thesis", "file"):
        with pytest.raises(CacheError, match=f"{name} exists and is not a bundle; choose another directory"):
            bundle.write(tmp_path / name, [entry], {})
    assert (tmp_path / "thesis/chapter.tex").read_text() == "precious"
    assert below(tmp_path, ".thesis*") == []


def test_bundle_is_replaced_and_empty_directory_is_filled(layer, header, tmp_path):
    first = layer.build(RECIPE, Builder(header))
    second = layer.build(recipe_with_part("flags", "-O0"), Builder(header))
    (tmp_path / "bundle").mkdir()
    for entry in (first, second):
        bundle.write(tmp_path / "bundle", [entry], {})
        (one,), problems = bundle.verify(tmp_path / "bundle")
        assert problems == [] and one.directory.parts[-2:] == entry.directory.parts[-2:]
    assert below(tmp_path, ".bundle*") == []


def test_failed_bundle_leaves_nothing(layer, header, tmp_path, monkeypatch):
    entry = layer.build(RECIPE, Builder(header))

    def refuse(*arguments, **options):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "chmod", refuse)
        with pytest.raises(CacheError, match=r"cannot write the bundle .*bundle: .*No space left on device$"):
            bundle.write(tmp_path / "bundle", [entry], {})
    assert below(tmp_path, "*bundle*") == []


def test_header_that_hides_a_kernels_own_is_noticed_in_a_layer(own, layer, header, tmp_path, records_at_once):
    first = tmp_path / "first"
    first.mkdir()
    anchors = (("kernels", str(first)), ("include-0", str(header.parent)))
    recipe = replace(RECIPE, anchors=anchors, own=("kernels", "include-0"))
    built = layer.build(recipe, Builder(header, search=(first, header.parent)))
    assert loader_lookup(own, recipe) == built and loader_lookup(own, recipe) == built
    let_the_clock_tick(first)
    write(first / header.name, "struct hides {};")
    assert loader_lookup(own, recipe) is None
    (first / header.name).unlink()
    assert loader_lookup(own, recipe) == built


# ---- replaced bundles


def test_replaced_bundle_has_another_digest(bundled, layer, header, tmp_path):
    """The hashes in the replacement are consistent, so only the digest shows the difference."""
    known = bundle.digest(bundled)
    bundle.check_digest(bundled, known)
    bundle.check_digest(bundled, f"sha256:{known.upper()}\n")
    write(header, "struct evil {};")
    bundle.write(bundled, [layer.build(recipe_with_anchor(header.parent), Builder(header))], {"torch": "2.11"})
    assert bundle.verify(bundled)[1] == []
    with pytest.raises(
        DamagedError, match=f"moved is a different bundle: expected the digest {known}, got [0-9a-f]{{64}}"
    ):
        bundle.check_digest(bundled, known)


@pytest.mark.parametrize(
    "damage", [flip_byte, make_empty, sign_anew, lambda path: (path.parent / "more").write_text("")]
)
def test_digest_and_hashes_together_cover_every_file(bundled, damage):
    known = bundle.digest(bundled)
    damage(manifest_of(bundled))
    bundle.check_digest(bundled, known)  # the digest covers only the list of the files and their hashes
    assert bundle.verify(bundled)[1] != []


@pytest.mark.parametrize("expected", ["", "0123", "sha256:", "g" * 64, "md5:" + "0" * 64])
def test_invalid_digest_is_rejected(bundled, expected):
    with pytest.raises(CacheError, match="is not a digest; pass the 64 digits"):
        bundle.check_digest(bundled, expected)


def test_verify_command_compares_the_digest(bundled, capsys):
    known = bundle.digest(bundled)
    command = ["cache", "verify", str(bundled), "--expect"]
    assert main([*command, known]) == 0
    assert capsys.readouterr().out == "1 entry, 0 problems\n"
    assert main([*command, "0" * 64, "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["digest"], answer["expected"]) == (known, "0" * 64)
    assert len(answer["problems"]) == 1 and "is a different bundle" in answer["problems"][0]
    assert main([*command, "0" * 64]) == 1
    assert "is a different bundle: expected the digest 0000" in capsys.readouterr().err
    for wrong in ([*command, "short"], ["cache", "verify", "--expect", known]):
        assert main(wrong) == 1
        assert capsys.readouterr().err.startswith("tkjit: ")
    (bundled / BUNDLE).unlink()
    assert main([*command, known]) == 1
    assert "is not a bundle" in capsys.readouterr().err


def test_links_and_fifos_in_a_bundle_are_reported(bundled, tmp_path):
    (bundled / "link").symlink_to(tmp_path)
    os.mkfifo(bundled / "fifo")
    assert bundle.verify(bundled)[1] == [f"{bundled / name} was not bundled" for name in ("fifo", "link")]
