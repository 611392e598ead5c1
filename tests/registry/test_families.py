"""Spec files with several kernels: lookup by name, and the cached names of a directory."""

import pytest

import tkjit
from tkjit import SpecError, registry
from tkjit.cache import fingerprints
from tkjit.config import Settings
from tkjit.loader import loader_for

FAMILY = """
import tkjit as tk
from tkjit import In, Tensor, kernel as describe

COMMON = {{"grid": 1, "block": 32}}

@tk.kernel("__global__ void {first}(Globals g) {{}}", entry="{first}", **COMMON)
def {first}(x: In[Tensor, "float32", "N"]): ...

@{first}.overload("__global__ void {first}(Globals g) {{}}", entry="{first}", **COMMON)
def {first}(x: In[Tensor, "float16", "N"]): ...

@describe("__global__ void {second}(Globals g) {{}}", entry="{second}", **COMMON)
def {second}(x: In[Tensor, "float32", "N"]): "of {file}"

def _helper(): ...
"""


def write(path, first="left", second="right"):
    path.write_text(FAMILY.format(first=first, second=second, file=path.stem))
    return path


def test_every_kernel_in_a_file_is_found_by_name(kernels_here):
    write(kernels_here / "pair.py")
    assert {"left", "right"} <= set(tkjit.kernels()) and "pair" not in tkjit.kernels()
    assert len(tkjit.find("left").specs) == 2 and tkjit.find("right").specs[0].doc == "of pair"
    with pytest.raises(SpecError, match=r"no kernel is named 'pair'|defines no 'pair'; it defines left, right"):
        tkjit.find("pair")


def test_file_named_after_the_kernel_takes_precedence(kernels_here):
    write(kernels_here / "pair.py")
    write(kernels_here / "right.py", first="other")
    assert tkjit.find("right").specs[0].doc == "of right"
    assert registry.kernel_files(Settings.from_environment())["right"] == kernels_here / "right.py"


def test_duplicate_definition_is_reported_with_both_lines(kernels_here):
    places = [write(kernels_here / "pair.py"), write(kernels_here / "twin.py", first="third")]
    with pytest.raises(SpecError) as caught:
        tkjit.find("right")
    assert all(f"{path}:14" in str(caught.value) for path in places) and "right is defined twice" in str(caught.value)
    assert tkjit.find("third").name == "third"
    write(kernels_here / "pair.py", second="left")
    with pytest.raises(SpecError, match=r"left is defined twice: .*pair.py:8 and .*pair.py:14"):
        tkjit.find("left")


def test_user_file_takes_precedence_over_bundled_kernels(kernels_here):
    write(kernels_here / "pair.py", second="axpy")
    assert tkjit.find("axpy").specs[0].doc == "of pair"


def test_unparsable_file_does_not_hide_others(kernels_here):
    write(kernels_here / "pair.py")
    (kernels_here / "broken.py").write_text("def f(\n")
    assert tkjit.find("left").name == "left" and "broken" in tkjit.kernels()
    with pytest.raises(SpecError, match=r"broken.py:1: "):
        tkjit.find("broken")


# ---- the cached names of a directory


@pytest.fixture
def definitions(cache):
    """Looks up the kernels of a directory with a new loader each time, as separate processes do."""

    def of(directory):
        loader = loader_for.__wrapped__(Settings.from_environment())
        return loader.warm_starts.definitions(directory)

    return of


@pytest.fixture
def records_at_once(monkeypatch):
    """Lets the cache record files that have only just changed."""
    monkeypatch.setattr(fingerprints, "SETTLED_NS", 0)


@pytest.fixture
def reads(monkeypatch):
    read, places = registry.definitions, []
    monkeypatch.setattr(registry, "definitions", lambda directory: places.append(directory) or read(directory))
    return places


def test_directory_is_parsed_once(kernels_here, definitions, reads, records_at_once):
    write(kernels_here / "pair.py")
    first = definitions(kernels_here)
    assert definitions(kernels_here) == {name: [list(place) for place in places] for name, places in first.items()}
    assert set(first) == {"left", "right"} and len(reads) == 1


@pytest.mark.parametrize("change", ["edit", "add", "remove", "rename"])
def test_every_change_to_a_directory_is_noticed(kernels_here, definitions, reads, records_at_once, change):
    path = write(kernels_here / "pair.py")
    write(kernels_here / "other.py", "up", "down")
    definitions(kernels_here)
    if change == "edit":
        write(path, second="middle")
    elif change == "add":
        write(kernels_here / "more.py", "one", "two")
    elif change == "remove":
        path.unlink()
    else:
        path.rename(kernels_here / "renamed.py")
    assert definitions(kernels_here) == registry.definitions(kernels_here)
    assert len(reads) == 3  # the last one is this test's own


def test_missing_directory_is_noticed_once_it_exists(kernels_here, definitions, records_at_once):
    assert definitions(kernels_here / "missing") == {}
    (kernels_here / "missing").mkdir()
    write(kernels_here / "missing/pair.py")
    assert set(definitions(kernels_here / "missing")) == {"left", "right"}


def test_unwritable_cache_is_not_an_error(kernels_here, definitions, cache):
    cache.write_text("a file in place of the directory")
    write(kernels_here / "pair.py")
    assert set(definitions(kernels_here)) == {"left", "right"}
