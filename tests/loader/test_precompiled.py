"""The precompiled header of glue: what it is compiled with, and that it only saves time."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from support.define import define

from tkjit.cache.entry import read_dependencies
from tkjit.compile.flags import RUNTIME
from tkjit.config import Settings
from tkjit.loader import loader_for
from tkjit.loader.glue_flags import glue_flags
from tkjit.loader.glue_header import HEADER

pytestmark = pytest.mark.compiles

SOURCE = "__global__ void f(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] += 1; }"


@pytest.fixture
def loader(cache_with_runtime):
    loader = loader_for(Settings.from_environment())
    assert loader.runtime
    return loader


def built() -> Path:
    """The entry of a new kernel's glue, after a call that is right."""
    kernel = define(SOURCE, '(x: InOut[Tensor, "float32", "N"], n: int)', entry="f", args=True, grid=1, block=32)
    x = torch.zeros(3)
    kernel(x, 2)
    assert x.tolist() == [1, 1, 0]
    loader = loader_for(Settings.from_environment())
    return loader.find_or_build(loader.glue_plan(kernel.specs))


def test_a_glue_is_compiled_with_it(loader):
    header = loader.glue_header()
    assert (header.directory / f"{HEADER}.gch").is_file()
    command = built().manifest["command"]
    assert f"-include {header.directory / HEADER} " in command


def test_the_compiler_takes_it(loader, tmp_path):
    """It says so of a file that does not fit, under -Winvalid-pch."""
    command = built().manifest["command"].split()
    words = command[1 : command.index("-MMD")]
    (tmp_path / "a.cpp").write_text("")
    command = [str(loader.toolchain.cxx.path), *words, "-Winvalid-pch", "-fsyntax-only", str(tmp_path / "a.cpp")]
    child = subprocess.run(command, capture_output=True, text=True)
    assert child.returncode == 0 and child.stderr == ""


@pytest.mark.parametrize("damage", ["gone", "cut", "empty"])
def test_a_file_that_is_not_whole_costs_time_alone(loader, damage):
    directory = loader.glue_header().directory
    file = directory / f"{HEADER}.gch"
    if damage == "gone":
        shutil.rmtree(directory)
    else:
        file.write_bytes(file.read_bytes()[:1000] if damage == "cut" else b"")
    assert built().shared_object.is_file()


def test_a_glue_depends_on_what_the_header_read(loader):
    entry = built()
    names = read_dependencies(entry.directory, entry.manifest)["files"]
    assert {"<tkjit>/runtime/glue.h", "<tkjit>/runtime/table.h", "<tkjit>/include/tkjit/arg.h"} <= set(names)
    assert not any(HEADER in name for name in names)


@pytest.mark.parametrize("lost", ["flags", "path"])
def test_without_known_flags_load_inline_makes_it(loader, monkeypatch, lost):
    runtime = loader._runtime.entry
    manifest = dict(runtime.manifest)
    manifest["cflags"] = "" if lost == "flags" else manifest["cflags"].replace("-isystem /", "-isystem /gone/")
    monkeypatch.setitem(vars(runtime), "manifest", manifest)
    assert loader.glue_flags() is None
    monkeypatch.undo()
    monkeypatch.setattr(loader.env, "glue_flags", lambda: None)
    kernel = define(SOURCE, '(x: InOut[Tensor, "float32", "N"], n: int)', entry="f", args=True, grid=1, block=32)
    product = loader.find_or_build(loader.glue_plan(kernel.specs))
    assert "cflags" in product.manifest


def test_a_glue_does_not_import_cpp_extension(fresh, cache_with_runtime, loader):
    assert loader.glue_header()
    code = """
import sys, torch, tkjit
from tkjit import InOut, Tensor
@tkjit.kernel("__global__ void quick(float* x) { x[0] = 1; }", entry="quick", args=True, grid=1, block=1)
def quick(x: InOut[Tensor, "float32", "N"]) -> None: ...
quick(torch.zeros(1))
assert "torch.utils.cpp_extension" not in sys.modules
"""
    fresh.run(code, TKJIT_CACHE=str(cache_with_runtime))


def test_the_words():
    own = ("-O1", "-g0")
    ldflags = "-shared -L/usr -lc10"
    given = f"-DTORCH_EXTENSION_NAME=tkjit_1 -DX -I{RUNTIME} -isystem /usr -fPIC -std=c++20 -O1 -g0"
    words = ["-DX", f"-I{RUNTIME}", "-isystem", "/usr", "-fPIC", "-std=c++20", "-O2"]
    assert glue_flags(given, ldflags, own, ["-O2"]) == (words, ldflags.split())
    assert glue_flags(given + " -more", ldflags, own, ["-O2"]) is None
    assert glue_flags('-DX="a b" -O1 -g0', ldflags, own, ["-O2"]) is None
    assert glue_flags(given.replace("/usr", "/not/here"), ldflags, own, ["-O2"]) is None
    assert glue_flags(given, "-L/not/here", own, ["-O2"]) is None
