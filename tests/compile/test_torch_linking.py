"""Modules are linked without reading torch's largest library, and find it in their process all the same."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from tkjit.compile.torch_linking import quick_torch_linking

pytestmark = pytest.mark.compiles


def test_a_module_names_the_library_that_brings_the_others(runtime):
    (module,) = runtime.glob("v1/*/runtime/*/*/*.so")
    libraries = module.read_bytes()
    assert b"\0libtorch_python.so\0" in libraries and b"\0libtorch_cpu.so\0" not in libraries
    assert not list(runtime.rglob("libtorch*"))


def test_an_empty_library_is_there_for_as_long_as_it_is_needed(tmp_path):
    with quick_torch_linking(Path(shutil.which("g++") or "g++"), tmp_path) as flags:
        assert flags[-1] == "-L."
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("exists", [True, False])
def test_without_the_libraries_nothing_stands_in_their_place(exists, tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "torch/__init__.py"))
    library = tmp_path / "torch/lib/libtorch_python.so"
    library.parent.mkdir(parents=True)
    if exists:
        library.touch()
    with quick_torch_linking(Path("/bin/false"), tmp_path) as flags:
        assert (str(library) in flags) == exists and bool(flags) == exists
