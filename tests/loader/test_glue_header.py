"""The precompiled header of glue: what it is compiled with, and that it only saves time."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from support.define import define

from tkjit.cache.entry import read_dependencies
from tkjit.config import Settings
from tkjit.loader import loader_for
from tkjit.loader.glue_header import HEADER, words_of_glue

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
    cflags = built().manifest["cflags"]
    assert cflags.endswith(f"-include {header.directory / HEADER}")


def test_the_compiler_takes_it(loader, tmp_path):
    """It says so of a file that does not fit, under -Winvalid-pch."""
    words = built().manifest["cflags"].split()
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


def test_the_words():
    own = ("-O1", "-g0")
    given = "-DTORCH_EXTENSION_NAME=tkjit_1 -DX -I/a -isystem /b -fPIC -std=c++20 -O1 -g0"
    assert words_of_glue(given, own, ["-O2"]) == ["-DX", "-I/a", "-isystem", "/b", "-fPIC", "-std=c++20", "-O2"]
    assert words_of_glue(given + " -more", own, ["-O2"]) is None
    assert words_of_glue('-DX="a b" -O1 -g0', own, ["-O2"]) is None
