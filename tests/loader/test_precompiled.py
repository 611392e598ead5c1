"""Precompiled headers: what is compiled with them, and that they only save time."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from support.define import define

from tkjit.cache import Entry
from tkjit.cache.entry import read_dependencies
from tkjit.compile.flags import RUNTIME
from tkjit.compile.targets import gpu_target
from tkjit.config import Settings
from tkjit.loader import loader_for, precompiled
from tkjit.loader.glue_flags import glue_flags
from tkjit.loader.precompiled import PrecompiledHeaderPlan, of_glue, of_host_halves, of_launchers
from tkjit.spec import variants_of

pytestmark = pytest.mark.compiles

SOURCE = "__global__ void f(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] += 1; }"
PARAMETERS = '(x: InOut[Tensor, "float32", "N"], n: int)'
GLUE, LAUNCHER = "glue", "launcher"


@pytest.fixture
def loader(cache_with_runtime):
    loader = loader_for(Settings.from_environment())
    assert loader.runtime
    return loader


def header(loader, name: str) -> PrecompiledHeaderPlan:
    if name == GLUE:
        return of_glue(loader.env, loader.glue_flags().compiler)
    return of_launchers(loader.env, loader.target("cpu"))


def directory_of(loader, name: str) -> Path:
    return loader.precompiled(header(loader, name)).directory


def built(name: str, **options) -> Entry:
    """The entry of a new kernel's glue, or of its launcher, after a call that is right."""
    given = {"args": True, "grid": 1, "block": 32, **options}
    kernel = define(given.pop("source", SOURCE), PARAMETERS, entry="f", **given)
    x = torch.zeros(3)
    kernel(x, 2)
    assert x.tolist() == [1, 1, 0]
    loader = loader_for(Settings.from_environment())
    if name == GLUE:
        return loader.find_or_build(loader.glue_plan(kernel.specs))
    spec = kernel.specs[0]
    return loader.launcher(spec, variants_of(spec)[0], loader.target("cpu"))


@pytest.mark.parametrize("name", [GLUE, LAUNCHER])
def test_it_is_compiled_with(loader, name):
    directory = directory_of(loader, name)
    assert (directory / f"tkjit_{name}.h.gch").is_file()
    assert f"-include {directory}/tkjit_{name}.h " in built(name).manifest["command"]


@pytest.mark.parametrize("name", [GLUE, LAUNCHER])
def test_the_compiler_takes_it(loader, tmp_path, name):
    """It says so of a file that does not fit, under -Winvalid-pch."""
    command = shlex.split(built(name).manifest["command"])
    words = command[: next(at for at, word in enumerate(command) if word.startswith("-M"))]
    (tmp_path / "a.cpp").write_text("")
    command = [*words, "-Winvalid-pch", "-fsyntax-only", str(tmp_path / "a.cpp")]
    child = subprocess.run(command, capture_output=True, text=True)
    assert child.returncode == 0 and child.stderr == ""


@pytest.mark.parametrize("damage", ["gone", "cut", "empty"])
@pytest.mark.parametrize("name", [GLUE, LAUNCHER])
def test_a_file_that_is_not_whole_costs_time_alone(loader, name, damage):
    directory = directory_of(loader, name)
    file = directory / f"tkjit_{name}.h.gch"
    if damage == "gone":
        shutil.rmtree(directory)
    else:
        file.write_bytes(file.read_bytes()[:1000] if damage == "cut" else b"")
    assert built(name).shared_object.is_file()


@pytest.mark.parametrize("name", [GLUE, LAUNCHER])
def test_one_that_is_removed_meanwhile_costs_time_alone(loader, name, monkeypatch):
    given = loader.precompiled

    def removed(plan):
        entry = given(plan)
        shutil.rmtree(entry.directory)
        return entry

    monkeypatch.setattr(loader.env, "precompiled", removed)
    monkeypatch.setattr(PrecompiledHeaderPlan, "_is_hidden", lambda *_: False)
    entry = built(name)
    assert "-include" not in entry.manifest.get("command", "")
    assert not loader.cache.failure_directory(header(loader, name).recipe).exists()


def test_an_edit_while_it_is_used_is_seen(loader, monkeypatch, tmp_path):
    """What it reads is then as young as the build, which is made again."""
    own, made = tmp_path / "own.h", []
    own.write_text("#define ADDED 1\n")
    given = PrecompiledHeaderPlan.compile_with

    def compile_with(plan, make, unit, search=()):
        product = given(plan, make, unit, search)
        made.append(plan)
        if len(made) == 1:
            own.write_text("#define ADDED 2\n")
        return product

    monkeypatch.setattr(precompiled, "_OF_LAUNCHERS", f'#include <tkjit/launcher.h>\n#include "{own}"\n')
    monkeypatch.setattr(PrecompiledHeaderPlan, "compile_with", compile_with)
    source = "__global__ void f(float* x, int n) { x[threadIdx.x] = ADDED; }"
    kernel = define(source, PARAMETERS, entry="f", args=True, grid=1, block=3)
    assert loader.simulator(loader.target("cpu"))
    spec = kernel.specs[0]
    entry = loader.launcher(spec, variants_of(spec)[0], loader.target("cpu"))
    assert len(made) == 2 and str(own) in read_dependencies(entry.directory, entry.manifest)["files"]
    x = torch.zeros(3)
    kernel(x, 3)
    assert x.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("name", "read"),
    [
        (GLUE, {"<tkjit>/runtime/glue.h", "<tkjit>/runtime/table.h", "<tkjit>/include/tkjit/arg.h"}),
        (LAUNCHER, {"<tkjit>/include/tkjit/launcher.h", "<tkjit>/sim/cuda_runtime.h", "/usr/include/stdio.h"}),
    ],
)
def test_what_it_read_is_depended_on(loader, name, read):
    entry = built(name)
    names = read_dependencies(entry.directory, entry.manifest)["files"]
    assert read <= set(names)
    assert not any(f"tkjit_{name}.h" in name for name in names)


# ---- launchers


@pytest.mark.parametrize("options", [{"std": "c++23"}, {"flags": "-include cmath"}], ids=["standard", "include"])
def test_a_launcher_that_is_compiled_otherwise_reads_the_header(loader, options):
    assert "tkjit_launcher.h" not in built(LAUNCHER, **options).manifest["command"]


def test_a_macro_that_the_header_would_see(loader):
    """The compiler refuses the precompiled file by itself: `rank` is a name in it."""
    assert built(LAUNCHER, source=f"{SOURCE}\n#if WIDTH != 3\n#error\n#endif", flags="-DWIDTH=3")
    with pytest.raises(Exception, match="rank"):
        built(LAUNCHER, source=f"{SOURCE}\n// rank", flags="-Drank=3")


def test_a_file_of_the_source_that_hides_one_of_the_header(loader, tmp_path):
    (tmp_path / "tkjit").mkdir()
    own = "#define HIDDEN 1\n#include_next <stdio.h>\n"
    (tmp_path / "stdio.h").write_text(own)
    (tmp_path / "f.cu").write_text(f"{SOURCE}\n#ifndef HIDDEN\n#error\n#endif\n")
    entry = built(LAUNCHER, source=str(tmp_path / "f.cu"))
    assert "tkjit_launcher.h" not in entry.manifest["command"]


def test_a_debugger_sees_the_headers(fresh, cache_with_runtime, tmp_path):
    code = """
import torch, tkjit
from tkjit.config import Settings
from tkjit.loader import loader_for, precompiled
from tkjit.spec import variants_of
loader = loader_for(Settings.from_environment())
spec = tkjit.find("axpy").specs[0]
entry = loader.launcher(spec, variants_of(spec)[0], loader.target("cpu"))
assert "tkjit_launcher.h" not in entry.manifest["command"]
"""
    fresh.run(code, TKJIT_CACHE=str(cache_with_runtime), TKJIT_SIM_DEBUG="1")


def test_a_host_half_is_compiled_with_its_own(loader):
    if not loader.toolchain.nvrtc:
        pytest.skip("no NVRTC: pip install tkjit[gpu]")
    kernel = define(SOURCE + " // host half", PARAMETERS, entry="f", args=True, grid=1, block=32)
    spec = kernel.specs[0]
    entry = loader.launcher(spec, variants_of(spec)[0], gpu_target("90a"))
    directory = loader.precompiled(of_host_halves(loader.env)).directory
    assert f"-include {directory}/tkjit_host_half.h " in entry.manifest["command"]
    names = read_dependencies(entry.directory, entry.manifest)["files"]
    assert "<tkjit>/include/tkjit/driver_launch.h" in names and not any("tkjit_host_half.h" in name for name in names)


# ---- glue


@pytest.mark.parametrize("lost", ["flags", "path"])
def test_without_known_flags_load_inline_makes_it(loader, monkeypatch, lost):
    runtime = loader._runtime.entry
    manifest = dict(runtime.manifest)
    manifest["cflags"] = "" if lost == "flags" else manifest["cflags"].replace("-isystem /", "-isystem /gone/")
    monkeypatch.setitem(vars(runtime), "manifest", manifest)
    assert loader.glue_flags() is None
    monkeypatch.undo()
    monkeypatch.setattr(loader.env, "glue_flags", lambda: None)
    kernel = define(SOURCE, PARAMETERS, entry="f", args=True, grid=1, block=32)
    product = loader.find_or_build(loader.glue_plan(kernel.specs))
    assert "cflags" in product.manifest


def test_a_glue_does_not_import_cpp_extension(fresh, cache_with_runtime, loader):
    assert directory_of(loader, GLUE)
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
    assert glue_flags(given, ldflags, own, ["-O2"]) == (words, ["-shared"])
    assert glue_flags(given + " -more", ldflags, own, ["-O2"]) is None
    assert glue_flags('-DX="a b" -O1 -g0', ldflags, own, ["-O2"]) is None
    assert glue_flags(given.replace("/usr", "/not/here"), ldflags, own, ["-O2"]) is None
