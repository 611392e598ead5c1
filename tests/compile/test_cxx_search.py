"""Without ``CXX``, tkjit uses the first usable compiler on ``PATH`` and remembers those that it rejected."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest
from support.fake_tools import calls, write_gxx, write_tool

from tkjit import TkjitWarning, ToolchainError
from tkjit.cache import fingerprints
from tkjit.compile.cxx_search import candidates
from tkjit.compile.toolchain import Toolchain
from tkjit.config import Settings

OLD = "g++ (GCC) 9.4.0"
TOO_OLD = "is version 9; g++ 11 or newer is needed"


@pytest.fixture
def places(tmp_path) -> list[Path]:
    """Three directories that make up ``PATH``."""
    made = [tmp_path / name for name in ("first", "second", "third")]
    for place in made:
        place.mkdir()
    return made


@pytest.fixture
def find(tmp_path, places):
    """Makes a toolchain as a new process would: it shares only the memo with the others."""

    def make(**settings) -> Toolchain:
        settings = {"search_path": os.pathsep.join(map(str, places)), **settings}
        return Toolchain(Settings(tmp_path / "cache", **settings), tmp_path / "cache/v1/tools.json")

    return make


def taken(tools: Toolchain) -> Path:
    """Return the path of the compiler that the toolchain uses, and ignore warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TkjitWarning)
        return tools.cxx.path


def written(path: Path) -> Path:
    path.touch(mode=0o755)
    return path


# ---- the order


def test_names_without_a_version_come_first_and_then_the_newest_versions(places):
    first, second, third = places
    expected = [
        written(path)
        for path in (
            *(first / "g++", third / "g++", second / "c++", first / "clang++"),
            *(third / "g++-14", second / "g++-13", first / "g++-12.4", first / "g++-9"),
            *(second / "clang++-18", first / "clang++-9"),
        )
    ]
    for name in ("g++-mp", "gcc", "g++-14.sh", "clang++-", "x86_64-linux-gnu-g++-12", "clang-18"):
        written(first / name)
    assert list(candidates(os.pathsep.join(map(str, places)))) == expected


def test_a_file_with_several_names_is_a_candidate_once(places):
    first, second, _ = places
    real = written(second / "g++-12")
    for path in (first / "g++", first / "c++", second / "g++", first / "g++-12"):
        path.symlink_to(real)
    assert list(candidates(f"{first}:{second}:{first}/../second")) == [first / "g++"]


def test_the_names_of_a_compiler_cache_are_separate_candidates(places):
    first, second, _ = places
    dispatcher = written(second / "ccache")
    for name in ("g++", "clang++"):
        (first / name).symlink_to(dispatcher)
    assert list(candidates(str(first))) == [first / "g++", first / "clang++"]


def test_an_empty_entry_of_path_is_the_working_directory(places, monkeypatch, find):
    monkeypatch.chdir(places[1])
    write_gxx(places[1] / "g++")
    assert find(search_path=f"{places[0]}::{places[2]}").cxx.path == places[1] / "g++"
    assert list(candidates("")) == []


def test_directories_that_cannot_be_read_are_skipped(places, tmp_path, monkeypatch):
    file, closed = written(tmp_path / "file"), places[0]
    written(closed / "g++-14")
    iterdir = Path.iterdir

    def refuse(self: Path):
        if self == closed:  # root could read any directory
            raise PermissionError(13, "Permission denied")
        return iterdir(self)

    monkeypatch.setattr(Path, "iterdir", refuse)
    (places[1] / "g++").mkdir()
    good = written(places[1] / "g++-13")
    assert list(candidates(f"{file}:{closed}:{tmp_path}/none:{places[1]}")) == [good]


def test_directories_are_not_listed_if_a_name_without_a_version_is_usable(places, find, monkeypatch):
    write_gxx(places[2] / "g++")
    monkeypatch.setattr(Path, "iterdir", lambda self: pytest.fail("a directory is listed"))
    tools = find()
    assert tools.cxx.path == places[2] / "g++" and tools.searched_paths()


# ---- unusable compilers


def test_the_first_usable_compiler_is_used(places, find):
    write_gxx(places[0] / "g++", OLD)
    write_tool(places[1] / "g++", "exit 1")
    write_tool(places[0] / "clang++", "kill -SEGV $$")
    good = write_gxx(places[2] / "g++-13")
    write_gxx(places[2] / "g++-12")
    tools = find()
    assert taken(tools) == good
    assert list(map(str, tools.rejected_cxx)) == [
        f"{places[0]}/g++ {TOO_OLD}",
        f"{places[1]}/g++ does not run: exit status 1",
        f"{places[0]}/clang++ does not run: signal 11",
    ]


def test_files_that_are_not_programs_are_listed_without_a_warning(places, find, tmp_path):
    (places[0] / "g++").symlink_to(tmp_path / "gone")
    (places[1] / "g++").write_text("#!/bin/sh\n")
    (places[2] / "g++").symlink_to("g++")
    good = write_gxx(places[2] / "c++")
    tools = find()
    assert tools.cxx.path == good  # pytest turns warnings into errors
    assert list(map(str, tools.rejected_cxx)) == [
        f"{places[0]}/g++ is a link to {tmp_path}/gone, which cannot be found",
        f"{places[1]}/g++ is not executable",
        f"{places[2]}/g++ is a link to {places[2]}/g++, which cannot be found",
    ]


def test_if_no_compiler_is_usable_all_are_listed(places, find):
    write_gxx(places[0] / "g++", OLD)
    write_tool(places[1] / "clang++-18", "exit 1")
    with pytest.raises(ToolchainError) as raised:
        find().cxx  # noqa: B018
    assert str(raised.value) == (
        "no C++ compiler on PATH can be used; install one: apt-get install g++\n"
        f"  {places[0]}/g++ {TOO_OLD}\n"
        f"  {places[1]}/clang++-18 does not run: exit status 1"
    )
    assert find().versions() is None


def test_cxx_takes_precedence_even_if_it_is_unusable(places, find):
    write_gxx(places[1] / "g++")
    old = write_gxx(places[0] / "g++", OLD)
    with pytest.raises(ToolchainError) as raised:
        find(cxx="g++").cxx  # noqa: B018
    assert str(raised.value) == f"{old} {TOO_OLD}; set CXX to another compiler, or unset it"
    assert find(cxx="g++").rejected_cxx == []


# ---- the memo, and warnings


def test_a_rejected_compiler_is_checked_once(places, find):
    write_gxx(places[0] / "g++", OLD)
    write_gxx(places[1] / "g++")
    assert {taken(find()) for _ in range(3)} == {places[1] / "g++"}
    assert len(calls(places[0])) == len(calls(places[1])) == 1


def test_a_rejected_compiler_is_checked_again_if_its_file_changes(places, find):
    write_gxx(places[0] / "g++", OLD)
    write_gxx(places[1] / "g++")
    assert taken(find()) == places[1] / "g++"
    write_gxx(places[0] / "g++")
    assert find().cxx.path == places[0] / "g++"


def test_while_no_compiler_is_usable_all_are_checked_again(places, find):
    """A missing library may have been installed, which does not change the compiler's file."""
    write_tool(places[0] / "g++", f"[ -e {places[0]}/library ] || exit 1\necho 'g++ (GCC) 12.2.0'")
    assert find().versions() is None
    (places[0] / "library").touch()
    assert find().cxx.path == places[0] / "g++"


@pytest.mark.parametrize(
    "ask", [lambda find: find(cxx="g++").cxx, lambda find: find().rejected_cxx], ids=["CXX", "doctor"]
)
def test_a_repaired_compiler_is_checked_again_by(ask, places, find):
    first = write_tool(places[0] / "g++", f"[ -e {places[0]}/library ] || exit 1\necho 'g++ (GCC) 12.2.0'")
    second = write_gxx(places[1] / "g++")
    assert taken(find()) == second
    (places[0] / "library").touch()
    assert find().cxx.path == second
    ask(find)
    assert find().cxx.path == first


def test_a_skipped_compiler_causes_one_warning(places, find):
    first, second = write_gxx(places[0] / "g++", OLD), write_gxx(places[1] / "g++")
    with pytest.warns(TkjitWarning) as warned:
        assert find().cxx.path == second
    (warning,) = warned
    assert str(warning.message) == (
        f"{first} {TOO_OLD}; tkjit compiles with {second} instead (set CXX to choose another compiler)"
    )
    for tools in (find(), find()):
        assert tools.cxx.path == second  # pytest turns warnings into errors
    write_gxx(first, "g++ (GCC) 10.2.0")
    with pytest.warns(TkjitWarning, match="is version 10"):
        assert find().cxx.path == second


def test_there_is_no_warning_after_the_list_was_shown(places, find):
    write_gxx(places[0] / "g++", OLD)
    write_gxx(places[1] / "g++")
    assert len(find().rejected_cxx) == 1
    assert find().cxx.path == places[1] / "g++"


# ---- the files that a warm start compares


def test_every_path_that_could_change_the_choice_is_compared(places, find):
    write_gxx(places[0] / "g++", OLD)
    good = write_gxx(places[1] / "g++-13")
    tools = find()
    assert taken(tools) == good

    def state() -> list[bytes]:
        return [fingerprints.state_of(path) for path in tools.searched_paths()]

    before = state()
    assert state() == before
    for path in (places[2] / "g++", places[1] / "clang++", places[2] / "g++-14"):
        path.touch()
        assert state() != before, path
        path.unlink()
        before = state()
    for path in (places[0] / "g++", good):
        path.write_text(f"{path.read_text()}\n")
        assert state() != before, path
        before = state()
