"""Modules are linked without reading torch's largest library, and find it in their process all the same."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
import torch

from tkjit.compile.torch_linking import quick_torch_linking, without_own

pytestmark = pytest.mark.compiles
GXX = Path(shutil.which("g++") or "g++")


def test_a_module_names_the_library_that_brings_the_others(runtime):
    (module,) = runtime.glob("v1/*/runtime/*/*/*.so")
    libraries = module.read_bytes()
    assert b"\0libtorch_python.so\0" in libraries and b"\0libtorch_cpu.so\0" not in libraries
    assert not list(runtime.rglob("libtorch*"))


def test_an_empty_library_is_there_for_as_long_as_it_is_needed(tmp_path):
    with pytest.raises(KeyboardInterrupt), quick_torch_linking(GXX, tmp_path) as linking:
        flags = linking()
        assert (tmp_path / "libtorch_cpu.so").read_bytes()[:4] == b"\x7fELF"
        assert flags[-1] == "-L." and without_own(["-shared", *flags, "-lc10"]) == ["-shared", "-lc10"]
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_a_compiler_that_is_not_waited_for_is_ended(tmp_path):
    cxx = tmp_path / "g++"
    cxx.write_text("#!/bin/sh\nexec sleep 60\n")
    cxx.chmod(0o755)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt), quick_torch_linking(cxx, tmp_path):
        raise KeyboardInterrupt
    assert time.monotonic() - start < 30


@pytest.mark.parametrize("cxx", ["/bin/false", "/not/there"])
def test_a_compiler_that_makes_none_links_as_before(cxx, tmp_path):
    with quick_torch_linking(Path(cxx), tmp_path) as linking:
        assert linking() == []


def test_a_torch_whose_libraries_lie_elsewhere_is_linked_as_before(tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "torch/__init__.py"))
    with quick_torch_linking(GXX, tmp_path) as linking:
        assert linking() == [] and not list(tmp_path.iterdir())
