"""Layers and bundles: entries of another machine, on a machine without compilers."""

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

HERE = replace(RECIPE, tools=None)  # the same kernel where there are no compilers


def state(root: Path) -> dict[str, tuple[int, ...]]:
    """Every file and directory with its size and times."""
    paths = [root, *root.rglob("*")]
    return {str(path): (s.st_size, s.st_mtime_ns, s.st_ctime_ns) for path in paths for s in [path.stat()]}


@pytest.fixture
def layer(open_cache, tmp_path):
    return open_cache(tmp_path / "layer")


@pytest.fixture
def own(open_cache, tmp_path, layer):
    """A cache with a layer."""
    return open_cache(tmp_path / "own", layers=[layer.root])


# ---- looking up


def test_a_hit_in_a_layer_writes_nothing_there(own, layer, header, records_at_once):
    built = layer.build(RECIPE, Builder(header))
    os.utime(built.directory, (1, 1))  # it was not used for long
    before = state(layer.root)
    for _ in range(2):
        assert loader_lookup(own) == built
    assert state(layer.root) == before
    assert len(records_of(own)) == 1 and records_of(layer) == []
    builder = Builder(header)
    assert own.build(RECIPE, builder) == built and builder.calls == 0


def test_what_a_layer_lacks_is_built_in_the_own_cache(own, layer, header):
    layer.build(RECIPE, Builder(header))
    before = state(layer.root)
    entry = own.build(recipe_with_part("flags", "-O0"), Builder(header))
    assert entry.directory.is_relative_to(own.root)
    assert state(layer.root) == before


def test_the_first_layer_that_has_it_serves(open_cache, layer, header, tmp_path):
    second = open_cache(tmp_path / "second")
    own = open_cache(tmp_path / "own")
    in_own, in_second = own.build(RECIPE, Builder(header)), second.build(RECIPE, Builder(header))
    of_both = open_cache(own.root, layers=[layer.root, second.root])
    assert of_both.lookup(RECIPE) == in_second
    in_first = layer.build(RECIPE, Builder(header))
    assert of_both.lookup(RECIPE) == in_first
    assert own.lookup(RECIPE) == in_own


def test_a_layer_serves_without_compilers_and_their_headers(own, layer, header):
    built = layer.build(RECIPE, Builder(header))
    header.unlink()
    assert own.lookup(HERE) == built
    assert own.lookup(replace(RECIPE, tools=(("cxx", "g++ 14"),))) == built
    assert own.lookup(replace(HERE, parts=(*RECIPE.parts[:2], ("torch", "2.12")))) is None


def test_in_a_layer_only_the_kernels_own_headers_are_compared(own, layer, header, tmp_path, records_at_once):
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
    header.unlink()  # its machine may not have them
    assert loader_lookup(own, here) == built


def test_without_compilers_the_own_cache_serves_what_it_has(entries, header):
    built = entries.build(RECIPE, Builder(header))
    header.unlink()
    assert entries.lookup(RECIPE) is None
    assert entries.lookup(HERE) == built


def test_a_damaged_entry_of_a_layer_is_passed_over(own, layer, header):
    flip_byte(layer.build(RECIPE, Builder(header)).shared_object)
    before = state(layer.root)
    assert own.lookup(RECIPE) is None
    entry = own.build(RECIPE, Builder(header))
    assert entry.directory.is_relative_to(own.root) and own.lookup(RECIPE) == entry
    assert state(layer.root) == before


def test_an_entry_of_a_layer_that_cannot_be_loaded_here_is_built_once(own, layer, header, open_cache, records_at_once):
    unloadable = layer.build(RECIPE, Builder(header))
    assert loader_lookup(own) == unloadable
    before = state(layer.root)
    builder = Builder(header)
    entry = own.build(RECIPE, builder, replacing=unloadable)
    assert entry.directory.is_relative_to(own.root)
    # the next process meets the same one first
    assert own.lookup(RECIPE, exclude=unloadable) == entry
    assert own.build(RECIPE, builder, replacing=unloadable) == entry
    assert builder.calls == 1
    assert state(layer.root) == before


def test_a_layer_that_is_not_there(open_cache, header, tmp_path):
    cache = open_cache(layers=[tmp_path / "absent"])
    assert cache.lookup(RECIPE) is None
    assert cache.build(RECIPE, Builder(header)) == cache.lookup(RECIPE)
    assert not (tmp_path / "absent").exists()


# ---- bundles


@pytest.fixture
def bundled(layer, header, tmp_path) -> Path:
    """A bundle of one entry, which was moved after it was written."""
    entry = layer.build(recipe_with_anchor(header.parent), Builder(header))
    size = bundle.write(tmp_path / "made", [entry, entry], {"torch": "2.11"})  # as kernels that share their glue
    assert size == sum(path.stat().st_size for path in (tmp_path / "made").rglob("*") if path.is_file())
    (tmp_path / "made").rename(tmp_path / "moved")
    shutil.rmtree(layer.root)
    return tmp_path / "moved"


def manifest_of(bundled: Path) -> Path:
    (path,) = bundled.rglob(MANIFEST)
    return path


def test_a_bundle_serves_where_it_was_moved_to(open_cache, bundled, header, tmp_path):
    header.parent.rename(tmp_path / "other")
    cache = open_cache(layers=[bundled])
    entry = cache.lookup(replace(recipe_with_anchor(tmp_path / "other"), tools=None))
    assert entry.directory.is_relative_to(bundled)
    assert entry.shared_object.read_bytes() == b"machine code struct gl {};"
    entries, problems = bundle.verify(bundled)
    assert ([one.directory for one in entries], problems) == ([entry.directory], [])


def test_a_bundle_lists_what_is_in_it_by_hash(bundled):
    listed = json.loads((bundled / BUNDLE).read_text())
    assert listed["torch"] == "2.11"
    files = {str(path.relative_to(bundled)) for path in bundled.rglob("*") if path.is_file()}
    assert set(listed["files"]) == files - {BUNDLE}
    assert {path.name for path in map(Path, files)} >= {MANIFEST, DEPENDENCIES, "launcher.so", "launcher.cu"}


def sign_anew(path: Path) -> None:
    """Change an entry so that it still agrees with itself."""
    from tkjit.cache import checked_json
    from tkjit.cache.entry import MANIFEST, read_manifest

    checked_json.write(path.parent / MANIFEST, {**read_manifest(path.parent), "module": "another"})


@pytest.mark.parametrize("damage", [flip_byte, make_empty, Path.unlink, sign_anew])
def test_an_entry_that_is_not_the_bundled_one_is_not_served(open_cache, bundled, header, damage):
    damage(manifest_of(bundled))
    assert open_cache(layers=[bundled]).lookup(recipe_with_anchor(header.parent)) is None
    assert any(MANIFEST in problem for problem in bundle.verify(bundled)[1])


@pytest.mark.parametrize(
    "damage", [flip_byte, make_empty, lambda path: path.write_text("[]"), lambda path: path.write_text("{}")]
)
def test_a_bundle_whose_list_is_damaged_is_not_served(open_cache, bundled, header, damage):
    damage(bundled / BUNDLE)
    assert open_cache(layers=[bundled]).lookup(recipe_with_anchor(header.parent)) is None
    _, problems = bundle.verify(bundled)
    assert len(problems) == 1 and BUNDLE in problems[0]


def test_a_note_hides_no_change_of_a_bundle(open_cache, bundled, header, records_at_once):
    cache = open_cache(layers=[bundled])
    recipe = recipe_with_anchor(header.parent)
    let_the_clock_tick(manifest_of(bundled))
    assert loader_lookup(cache, recipe) is not None
    sign_anew(manifest_of(bundled))
    assert loader_lookup(cache, recipe) is None


def test_an_entry_that_was_added_to_a_bundle_is_not_served(open_cache, bundled, header):
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


def test_what_is_no_bundle_is_not_overwritten(layer, header, tmp_path):
    entry = layer.build(RECIPE, Builder(header))
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/chapter.tex").write_text("dear to somebody")
    (tmp_path / "file").write_text("too")
    for name in ("thesis", "file"):
        with pytest.raises(CacheError, match=f"{name} is there and is no bundle; name a new directory"):
            bundle.write(tmp_path / name, [entry], {})
    assert (tmp_path / "thesis/chapter.tex").read_text() == "dear to somebody"
    assert below(tmp_path, ".thesis*") == []


def test_a_bundle_is_replaced_and_an_empty_directory_filled(layer, header, tmp_path):
    first = layer.build(RECIPE, Builder(header))
    second = layer.build(recipe_with_part("flags", "-O0"), Builder(header))
    (tmp_path / "bundle").mkdir()
    for entry in (first, second):
        bundle.write(tmp_path / "bundle", [entry], {})
        (one,), problems = bundle.verify(tmp_path / "bundle")
        assert problems == [] and one.directory.parts[-2:] == entry.directory.parts[-2:]
    assert below(tmp_path, ".bundle*") == []


def test_a_bundle_that_cannot_be_written_leaves_nothing(layer, header, tmp_path, monkeypatch):
    entry = layer.build(RECIPE, Builder(header))

    def refuse(*arguments, **options):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "chmod", refuse)
        with pytest.raises(CacheError, match=r"cannot write the bundle .*bundle: .*No space left on device$"):
            bundle.write(tmp_path / "bundle", [entry], {})
    assert below(tmp_path, "*bundle*") == []


def test_a_header_that_hides_one_of_the_kernels_own_is_seen_in_a_layer(own, layer, header, tmp_path, records_at_once):
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


# ---- whose bundle it is


def test_a_bundle_that_was_replaced_as_a_whole_has_another_digest(bundled, layer, header, tmp_path):
    """Its own hashes agree with each other, as anybody's would."""
    known = bundle.digest(bundled)
    bundle.check_digest(bundled, known)
    bundle.check_digest(bundled, f"sha256:{known.upper()}\n")
    write(header, "struct evil {};")
    bundle.write(bundled, [layer.build(recipe_with_anchor(header.parent), Builder(header))], {"torch": "2.11"})
    assert bundle.verify(bundled)[1] == []
    with pytest.raises(DamagedError, match=f"moved is another bundle: expected the digest {known}, got [0-9a-f]{{64}}"):
        bundle.check_digest(bundled, known)


@pytest.mark.parametrize(
    "damage", [flip_byte, make_empty, sign_anew, lambda path: (path.parent / "more").write_text("")]
)
def test_a_digest_and_the_hashes_leave_no_file_out(bundled, damage):
    known = bundle.digest(bundled)
    damage(manifest_of(bundled))
    bundle.check_digest(bundled, known)  # of the list
    assert bundle.verify(bundled)[1] != []


@pytest.mark.parametrize("expected", ["", "0123", "sha256:", "g" * 64, "md5:" + "0" * 64])
def test_what_is_no_digest(bundled, expected):
    with pytest.raises(CacheError, match="is no digest; expected the 64 digits"):
        bundle.check_digest(bundled, expected)


def test_the_command_compares_a_bundles_digest(bundled, capsys):
    known = bundle.digest(bundled)
    command = ["cache", "verify", str(bundled), "--expect"]
    assert main([*command, known]) == 0
    assert capsys.readouterr().out == "1 entries, 0 problems\n"
    assert main([*command, "0" * 64, "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["digest"], answer["expected"]) == (known, "0" * 64)
    assert len(answer["problems"]) == 1 and "is another bundle" in answer["problems"][0]
    assert main([*command, "0" * 64]) == 1
    assert "is another bundle: expected the digest 0000" in capsys.readouterr().err
    for wrong in ([*command, "short"], ["cache", "verify", "--expect", known]):
        assert main(wrong) == 1
        assert capsys.readouterr().err.startswith("tkjit: ")
    (bundled / BUNDLE).unlink()
    assert main([*command, known]) == 1
    assert "is no bundle" in capsys.readouterr().err


def test_links_and_fifos_in_a_bundle_were_not_bundled(bundled, tmp_path):
    (bundled / "link").symlink_to(tmp_path)
    os.mkfifo(bundled / "fifo")
    assert bundle.verify(bundled)[1] == [f"{bundled / name} was not bundled" for name in ("fifo", "link")]
