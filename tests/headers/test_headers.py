"""Header libraries: search, installation into the cache, and the command `headers`."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.fake_builder import write

import tkjit
from tkjit import CacheError, HeaderLibrary, SpecError, ToolchainError
from tkjit.cli import main
from tkjit.config import Settings
from tkjit.headers import cached_root, check_complete, find_root, locate
from tkjit.headers.install import install, origin_of
from tkjit.spec import LIBRARIES, Spec
from tkjit.spec.headers import Git, Wheel

PAWS = HeaderLibrary("paws", proof="include/paws.h")
KITTENS = LIBRARIES["thunderkittens"]


@pytest.fixture
def settings(tmp_path) -> Settings:
    return Settings(cache_root=tmp_path / "cache")


@pytest.fixture
def paws(tmp_path) -> Path:
    """A library in a directory."""
    root = tmp_path / "somewhere/paws-1.0"
    write(root / "include/paws.h", "#pragma once")
    write(root / "include/paws/left.h", "int left;")
    write(root / ".git/config", "")
    return root


# ---- search


def test_the_root_comes_from_the_spec_then_the_environment_then_the_cache(settings, tmp_path):
    places = [tmp_path / "own", tmp_path / "named", cached_root("paws", settings)]
    for place in places:
        write(place / PAWS.proof, "")
    named = replace(settings, header_roots=(("paws", places[1]),))
    assert find_root(replace(PAWS, root=places[0]), named) == places[0]
    assert find_root(PAWS, named) == places[1]
    assert find_root(PAWS, settings) == places[2]


def test_the_environment_sets_the_root_of_a_known_library(tmp_path):
    write(tmp_path / "here" / KITTENS.proof, "")
    settings = Settings.from_environment({"THUNDERKITTENS_ROOT": str(tmp_path / "here")})
    assert find_root(KITTENS, settings) == tmp_path / "here"


def test_a_missing_library_is_reported_with_its_install_command(settings):
    with pytest.raises(ToolchainError, match=r"thunderkittens are not found; set THUNDERKITTENS_ROOT, or install it: "):
        find_root(KITTENS, settings)
    with pytest.raises(
        ToolchainError, match=r"the headers of paws are not found; give HeaderLibrary\('paws', root=\.\.\."
    ):
        find_root(PAWS, settings)


@pytest.mark.parametrize("own", [True, False])
def test_a_root_without_the_library_is_rejected(settings, tmp_path, own):
    library = replace(PAWS, root=tmp_path) if own else PAWS
    changed_settings = settings if own else replace(settings, header_roots=(("paws", tmp_path),))
    origin = "the spec" if own else "PAWS_ROOT"
    with pytest.raises(ToolchainError, match=rf"paws is not in .* \(from {origin}\): it has no include/paws\.h"):
        find_root(library, changed_settings)


def test_a_library_of_the_toolkit_needs_no_root(settings):
    assert find_root(LIBRARIES["curand"], settings) is None


def test_locate_fills_in_the_roots_of_libraries_and_the_paths_of_sources(settings, paws):
    @tkjit.kernel("<paws>/kernels/a.cu", headers=replace(PAWS, root=paws), entry="a", args=True, grid=1, block=1)
    def a(x: tkjit.In[tkjit.Tensor, "float32", "N"]) -> None: ...

    spec = locate(a.specs[0], settings)
    assert spec.sources[0][1].path == paws / "kernels/a.cu" and spec.sources[0][1].library == ""
    assert spec.headers[0].root == paws
    assert a.specs[0].sources[0][1].place == "<paws>/kernels/a.cu"


def test_a_missing_library_is_replaced_by_the_layer_with_the_kernels_sources(settings, tmp_path):
    def of(source: str) -> Spec:
        @tkjit.kernel(source, headers=PAWS, entry="a", args=True, grid=1, block=1)
        def a(x: tkjit.In[tkjit.Tensor, "float32", "N"]) -> None: ...

        return a.specs[0]

    layers = tmp_path / "of_b", tmp_path / "of_a"
    write(layers[0] / "headers/paws/kernels/b.cu", "")
    write(layers[1] / "headers/paws/kernels/a.cu", "")
    on_layers = replace(settings, cache_layers=layers)
    spec = locate(of("<paws>/kernels/a.cu"), on_layers)
    assert spec.headers[0].root == layers[1] / "headers/paws" and spec.sources[0][1].path.is_file()
    with pytest.raises(ToolchainError, match=r"a uses paws, but .* in the bundle has none"):
        check_complete(spec)
    with pytest.raises(ToolchainError, match="the headers of paws are not found"):
        locate(of("<paws>/kernels/c.cu"), on_layers)
    named = replace(on_layers, header_roots=(("paws", tmp_path),))
    with pytest.raises(ToolchainError, match="from PAWS_ROOT"):
        locate(of("<paws>/kernels/a.cu"), named)
    write(tmp_path / PAWS.proof, "")
    assert locate(of("<paws>/kernels/a.cu"), named).headers[0].root == tmp_path


def test_bad_and_unknown_library_names_are_rejected():
    with pytest.raises(SpecError, match="expected a name in lower case"):
        HeaderLibrary("Paws", proof="a.h")
    with pytest.raises(
        SpecError, match=r"no header library is named 'claws'; known are .*for another one, pass a tkjit\.Header"
    ):
        tkjit.kernel("a{}", headers="claws", entry="a", grid=1, block=1)(lambda: None)


@pytest.mark.parametrize(
    ("arch", "macros"),
    [("cpu", ()), ("75", ()), ("80", ("A",)), ("89", ("A",)), ("90a", ("H",)), ("100f", ("B",)), ("120", ("B",))],
)
def test_an_architecture_selects_the_macros(arch, macros):
    library = replace(PAWS, arch_defines=((90, "H"), (80, "A"), (100, "B")))
    assert library.defines_for(arch) == macros


# ---- installation


def archive_of(directory: Path, kind: str, top: str, path: Path) -> Path:
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for file in directory.rglob("*.h"):
                archive.write(file, str(Path(top) / file.relative_to(directory)))
    else:
        with tarfile.open(path, f"w:{kind}") as archive:
            archive.add(directory, top or ".")
    return path


def test_a_directory_is_installed(settings, paws):
    root = install(PAWS, settings, paws)
    assert root == cached_root("paws", settings) == find_root(PAWS, settings)
    assert (root / "include/paws/left.h").read_text() == "int left;"
    assert not (root / ".git").exists()
    assert origin_of(root) == str(paws)
    assert left_over(settings) == []


def left_over(settings: Settings) -> list[Path]:
    """Files that an installation left next to the library."""
    return sorted(path for path in (settings.cache_root / "headers").glob(".*"))


@pytest.mark.parametrize("kind", ["zip", "gz", "xz"])
@pytest.mark.parametrize("top", ["", "paws-1.0"])
def test_an_archive_is_installed(settings, paws, tmp_path, kind, top):
    """The library is at the archive's top, or in its only directory, as in archives of repositories."""
    path = archive_of(paws, kind, top, tmp_path / f"paws.{kind}")
    root = install(PAWS, settings, path)
    assert (root / "include/paws/left.h").is_file() and origin_of(root) == str(path)
    assert left_over(settings) == []


def test_a_wheel_with_the_library_in_a_subdirectory_is_installed(settings, paws, tmp_path):
    library = replace(PAWS, origin=Wheel("paws", "1.0", "nested/source"))
    root = install(library, settings, archive_of(paws, "zip", "nested/source", tmp_path / "paws.whl"))
    assert (root / PAWS.proof).is_file()


def test_another_library_is_rejected(settings, tmp_path):
    other = tmp_path / "other"
    write(other / "include/claws.h", "")
    for source in (other, archive_of(other, "zip", "claws", tmp_path / "claws.zip")):
        with pytest.raises(ToolchainError, match=rf"{source} is not paws: it has no include/paws\.h"):
            install(PAWS, settings, source)
    assert left_over(settings) == [] and not cached_root("paws", settings).exists()


@pytest.mark.parametrize("source", ["nothing", "text.h"])
def test_a_source_that_is_not_an_archive_is_rejected(settings, tmp_path, source):
    write(tmp_path / "text.h", "int x;")
    with pytest.raises(ToolchainError, match="is neither a directory nor an archive that Python can read"):
        install(PAWS, settings, tmp_path / source)


@pytest.mark.parametrize("member", ["../outside.h", "/tmp/tkjit-test-outside.h", "include/../../../outside.h"])
def test_a_tar_archive_with_members_outside_is_rejected(settings, tmp_path, member):
    path = tmp_path / "evil.tar"
    with tarfile.open(path, "w") as archive:
        for name in (PAWS.proof, member):
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    try:
        install(PAWS, settings, path)
    except ToolchainError as error:
        assert "evil.tar cannot be unpacked" in str(error)
    else:
        assert member.startswith("/")  # Python drops the leading /, so the file is unpacked inside
    assert not list(tmp_path.rglob("outside.h")) and not Path("/tmp/tkjit-test-outside.h").exists()
    assert left_over(settings) == []


def test_members_outside_of_a_zip_archive_are_unpacked_inside(settings, tmp_path):
    path = tmp_path / "evil.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(PAWS.proof, "")
        archive.writestr("../../outside.h", "")
    root = install(PAWS, settings, path)
    assert {outside.parent for outside in tmp_path.rglob("outside.h")} == {root}


@pytest.mark.parametrize("kind", ["zip", "gz"])
def test_a_broken_archive_is_rejected(settings, paws, tmp_path, kind):
    write(paws / "include/random.h", os.urandom(20000).hex())
    content = archive_of(paws, kind, "paws", tmp_path / f"paws.{kind}").read_bytes()
    broken = tmp_path / f"broken.{kind}"
    broken.write_bytes(content[:3000] + b"?" * 400 + content[3400:] if kind == "zip" else content[:5000])
    with pytest.raises(ToolchainError, match=f"broken.{kind}"):
        install(PAWS, settings, broken)
    assert left_over(settings) == []


def test_installing_again_replaces_the_library(settings, paws):
    install(PAWS, settings, paws)
    (paws / "include/paws/left.h").unlink()
    write(paws / "include/paws/right.h", "int right;")
    root = install(PAWS, settings, paws)
    assert sorted(path.name for path in (root / "include/paws").iterdir()) == ["right.h"]
    assert left_over(settings) == []


def test_a_failed_installation_keeps_the_earlier_library(settings, paws, tmp_path):
    root = install(PAWS, settings, paws)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ToolchainError):
        install(PAWS, settings, tmp_path / "empty")
    assert (root / PAWS.proof).is_file()


def test_an_unwritable_cache_is_reported(tmp_path, paws):
    write(tmp_path / "file", "")
    with pytest.raises(CacheError, match=r"cannot be written to: .*; set TKJIT_CACHE"):
        install(PAWS, Settings(cache_root=tmp_path / "file/cache"), paws)


def test_a_library_without_an_origin_needs_a_source(settings):
    with pytest.raises(ToolchainError, match="paws has no origin; give --from DIR or ARCHIVE"):
        install(PAWS, settings)


# ---- git

FAKE_GIT = """#!/bin/sh
echo "$@" >> "{log}"
shift; directory=$1; shift
case "$1" in
    init) mkdir "$directory/.git" ;;
    fetch) {fetch} ;;
    -c) mkdir "$directory/include"; echo "// $(wc -l < "{log}")" > "$directory/include/paws.h" ;;
esac
"""


@pytest.fixture
def git(tmp_path, monkeypatch) -> Callable[[str], Path]:
    """Return a function that replaces git by a script and returns the path of the script's log."""

    def put(fetch: str) -> Path:
        program, log = tmp_path / "bin/git", tmp_path / "git.log"
        write(program, FAKE_GIT.format(log=log, fetch=fetch))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        return log

    return put


FROM_GIT = replace(PAWS, origin=Git("https://example.org/paws", "0123abc"))


def test_git_fetches_the_pinned_commit(settings, git):
    log = git(":")
    root = install(FROM_GIT, settings)
    assert (root / PAWS.proof).is_file() and not (root / ".git").exists()
    assert origin_of(root) == "https://example.org/paws 0123abc"
    assert "fetch --quiet --depth 1 https://example.org/paws 0123abc" in log.read_text()


def test_a_failure_of_git_is_reported(settings, git):
    git('echo "warning: so" >&2; echo "fatal: unable to access" >&2; exit 128')
    with pytest.raises(
        ToolchainError, match=r"paws cannot be fetched: fatal: unable to access; on a machine without a"
    ):
        install(FROM_GIT, settings)
    assert left_over(settings) == []


def test_a_commit_of_something_else_is_rejected(settings, git):
    git(":")
    with pytest.raises(ToolchainError, match=r"https://example\.org/paws is not claws: it has no claws\.h"):
        install(replace(FROM_GIT, name="claws", proof="claws.h"), settings)


def test_missing_git_is_reported(settings, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        ToolchainError,
        match=r"paws: git does not run: No such file or directory; install it: apt-get install git; on a machine",
    ):
        install(FROM_GIT, settings)
    assert left_over(settings) == []


# ---- the command


@pytest.fixture
def no_variables(monkeypatch) -> None:
    for name in LIBRARIES:
        monkeypatch.delenv(f"{name.upper()}_ROOT", raising=False)


def test_the_command_installs_and_lists(cache, no_variables, tmp_path, capsys):
    write(tmp_path / "kittens" / KITTENS.proof, "")
    assert main(["headers", "list"]) == 0
    before = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in before] == sorted(LIBRARIES)
    assert any(line.endswith("or install it: python -m tkjit headers add thunderkittens") for line in before)
    assert any(line.startswith("curand") and "the toolkit's own" in line for line in before)
    assert main(["headers", "add", "thunderkittens", "--from", str(tmp_path / "kittens")]) == 0
    root = cache / "headers/thunderkittens"
    assert capsys.readouterr().out == f"thunderkittens: {root} ({tmp_path / 'kittens'})\n"
    assert main(["headers", "list"]) == 0
    assert f"{root} ({tmp_path / 'kittens'})" in capsys.readouterr().out


def test_the_list_shows_the_variable_that_sets_a_root(cache, no_variables, tmp_path, monkeypatch, capsys):
    write(tmp_path / "kittens" / KITTENS.proof, "")
    monkeypatch.setenv("THUNDERKITTENS_ROOT", str(tmp_path / "kittens"))
    main(["headers", "list"])
    assert f"{tmp_path / 'kittens'} (THUNDERKITTENS_ROOT)" in capsys.readouterr().out


def test_the_command_reports_the_wrong_library(cache, no_variables, tmp_path, capsys):
    assert main(["headers", "add", "thunderkittens", "--from", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"tkjit: {tmp_path} is not thunderkittens: it has no include/kittens.cuh")
    with pytest.raises(SystemExit):
        main(["headers", "add", "claws"])


# ---- permissions


def test_headers_that_untrusted_users_can_write_are_rejected(settings, paws):
    root = install(PAWS, settings, paws)
    for directory in (root, root.parent, settings.cache_root):
        directory.chmod(0o777)
        for action in (lambda: find_root(PAWS, settings), lambda: install(PAWS, settings, paws)):
            with pytest.raises(CacheError, match=f"{directory} can be written by everybody"):
                action()
        assert find_root(PAWS, replace(settings, cache_shared=True)) == root
        directory.chmod(0o755)
    assert left_over(settings) == [] and find_root(PAWS, settings) == root


def test_permissions_and_origin_in_the_source_are_ignored(settings, paws, tmp_path):
    (tmp_path / "victim").write_text("dear")
    (paws / ".origin").symlink_to(tmp_path / "victim")
    for path in (paws, paws / "include", paws / "include/paws.h"):
        path.chmod(0o777)
    before = os.umask(0)
    try:
        root = install(PAWS, settings, paws)
    finally:
        os.umask(before)
    assert (tmp_path / "victim").read_text() == "dear" and origin_of(root) == str(paws)
    assert [path for path in (root, *root.rglob("*")) if path.stat().st_mode & 0o022] == []
    (root / ".origin").unlink()
    os.mkfifo(root / ".origin")
    assert origin_of(root) == ""
