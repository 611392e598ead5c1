"""Precompiled headers: which builds use them, and that they only save time."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from support.define import define
from support.sampling import sample

from tkjit.cache import Entry
from tkjit.cache.entry import read_dependencies
from tkjit.check.plan import MEMORY, OVERFLOW, RACE, CheckerPlan
from tkjit.compile.flags import RUNTIME
from tkjit.config import Settings
from tkjit.errors import CacheError, CompileError
from tkjit.loader import common_headers, loader_for
from tkjit.loader.common_headers import CommonHeaderPlan, of_glue, of_launchers
from tkjit.loader.glue_flags import glue_flags
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


def header(loader, name: str) -> CommonHeaderPlan:
    if name == GLUE:
        return of_glue(loader.env, loader.glue_flags().compiler)
    return of_launchers(loader.env, loader.target("cpu"))


def directory_of(loader, name: str) -> Path:
    return loader.common_header(header(loader, name)).directory


def built(name: str, **options) -> Entry:
    """Define a kernel, call it, and return the cache entry of its glue or its launcher."""
    values = {"args": True, "grid": 1, "block": 32, **options}
    kernel = define(values.pop("source", SOURCE), PARAMETERS, entry="f", **values)
    x = torch.zeros(3)
    kernel(x, 2)
    assert x.tolist() == [1, 1, 0]
    loader = loader_for(Settings.from_environment())
    if name == GLUE:
        return loader.find_or_build(loader.glue_plan(kernel.specs))
    spec = kernel.specs[0]
    return loader.launcher(spec, variants_of(spec)[0], loader.target("cpu"))


@pytest.mark.parametrize("name", [GLUE, LAUNCHER])
def test_builds_include_the_precompiled_header(loader, name):
    directory = directory_of(loader, name)
    assert (directory / f"tkjit_{name}.h.gch").is_file()
    assert f"-include {directory}/tkjit_{name}.h " in built(name).manifest["command"]


TRANSLATED = """
__global__ void f(float* x, int n) {
    if (threadIdx.x < n) asm("add.f32 %0, %0, 0f3F800000;" : "+f"(x[threadIdx.x]));
}
"""


def test_a_source_with_inline_ptx_is_preprocessed_with_its_own_header(loader):
    """The preprocessed text names the header instead of containing it, so little text is searched and compiled."""
    preprocess, compile_command = built(LAUNCHER, source=TRANSLATED).manifest["command"].split(" && ")
    directory = loader.common_header(of_launchers(loader.env, loader.target("cpu"), is_translated=True)).directory
    assert f"-include {directory}/tkjit_launcher-translated.h -fpch-preprocess " in preprocess
    assert "-include" not in compile_command


def test_a_damaged_header_of_sources_with_inline_ptx_only_costs_time(loader):
    plan = of_launchers(loader.env, loader.target("cpu"), is_translated=True)
    (loader.common_header(plan).directory / f"{plan.file}.gch").write_bytes(b"")
    assert built(LAUNCHER, source=TRANSLATED).shared_object.is_file()


@pytest.mark.parametrize("source", [SOURCE, TRANSLATED], ids=["plain", "translated"])
@pytest.mark.parametrize("mode", sample([MEMORY, RACE, OVERFLOW], RACE))
def test_a_checker_uses_the_header_of_its_mode(loader, tmp_path, mode, source):
    spec = define(source, PARAMETERS, entry="f", args=True, grid=1, block=32).specs[0]
    target, is_translated = loader.target("cpu"), source == TRANSLATED
    entry = loader.find_or_build(CheckerPlan(loader.env, spec, variants_of(spec)[0], target, mode))
    plan = of_launchers(loader.env, target, mode, is_translated=is_translated)
    command = entry.manifest["command"].split(" && ")[0]
    assert f"-include {loader.common_header(plan).directory}/{plan.file} " in command
    assert refusal(command, tmp_path) == ""


def refusal(command: str, directory: Path) -> str:
    """Return the compiler's warning if it cannot use the precompiled header of a build; empty if it can."""
    words = shlex.split(command.split(" && ")[-1])
    (directory / "a.cpp").write_text("")
    words = words[: next(at for at, word in enumerate(words) if word == "-x" or word.startswith("-M"))]
    child = subprocess.run(
        [*words, "-Winvalid-pch", "-fsyntax-only", str(directory / "a.cpp")], capture_output=True, text=True
    )
    return child.stderr if child.returncode else child.stderr.strip()


@pytest.mark.parametrize("name", [GLUE, LAUNCHER])
def test_the_compiler_accepts_the_header(loader, tmp_path, name):
    command = built(name).manifest["command"]
    assert f"tkjit_{name}.h" in command and refusal(command, tmp_path) == ""


@pytest.mark.parametrize("damage", sample(["gone", "cut", "empty"], "cut"))
@pytest.mark.parametrize("name", sample([GLUE, LAUNCHER], LAUNCHER))
def test_a_damaged_header_only_costs_time(loader, name, damage):
    directory = directory_of(loader, name)
    file = directory / f"tkjit_{name}.h.gch"
    if damage == "gone":
        shutil.rmtree(directory)
    else:
        file.write_bytes(file.read_bytes()[:1000] if damage == "cut" else b"")
    assert built(name).shared_object.is_file()


def remove(file: Path) -> None:
    shutil.rmtree(file.parent)


def cut_the_header(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:1000])


def corrupt_the_dependencies(file: Path) -> None:
    dependencies = file.parent / "dependencies.json"
    dependencies.write_bytes(dependencies.read_bytes().replace(b"<tkjit>", b"<TKJIT>"))


@pytest.mark.parametrize(
    "damage", [pytest.param(remove, marks=pytest.mark.slow), cut_the_header, corrupt_the_dependencies]
)
@pytest.mark.parametrize("name", sample([GLUE, LAUNCHER], GLUE))
def test_a_header_that_is_damaged_after_it_was_found_only_costs_time(loader, name, damage, monkeypatch):
    find_header, damaged = loader.common_header, []

    def common_header(plan):
        entry = find_header(plan)
        damage(entry.directory / f"{plan.file}.gch")
        damaged.append(plan.file)
        return entry

    monkeypatch.setattr(loader.env, "common_header", common_header)
    entry = built(name)
    assert "-include" not in entry.manifest["command"] and f"tkjit_{name}.h" in damaged
    assert not list(loader.cache.root.rglob(".failed"))


def test_an_edit_during_a_build_with_the_header_is_noticed(loader, monkeypatch, tmp_path):
    """A file that the header includes is then newer than the build, so the build is repeated."""
    own, compiled = tmp_path / "own.h", []
    own.write_text("#define ADDED 1\n")
    original = CommonHeaderPlan.compile_with

    def compile_with(plan, make, unit, search=()):
        product = original(plan, make, unit, search)
        compiled.append(plan)
        if len(compiled) == 1:
            own.write_text("#define ADDED 2\n")
        return product

    monkeypatch.setattr(common_headers, "_OF_LAUNCHERS", f'#include <tkjit/launcher.h>\n#include "{own}"\n')
    monkeypatch.setattr(CommonHeaderPlan, "compile_with", compile_with)
    source = "__global__ void f(float* x, int n) { x[threadIdx.x] = ADDED; }"
    kernel = define(source, PARAMETERS, entry="f", args=True, grid=1, block=3)
    assert loader.simulator(loader.target("cpu"))
    spec = kernel.specs[0]
    entry = loader.launcher(spec, variants_of(spec)[0], loader.target("cpu"))
    assert len(compiled) == 2 and str(own) in read_dependencies(entry.directory, entry.manifest)["files"]
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
def test_builds_depend_on_the_files_in_the_header(loader, name, read):
    entry = built(name)
    names = read_dependencies(entry.directory, entry.manifest)["files"]
    assert read <= set(names)
    assert not any(f"tkjit_{name}.h" in name for name in names)


@pytest.mark.parametrize("name", [GLUE, LAUNCHER])
def test_a_header_that_cannot_be_built_is_tried_once(loader, name, monkeypatch):
    tried = []

    def make(plan, staging):
        tried.append(plan.file)
        raise CacheError("no space left")

    shutil.rmtree(directory_of(loader, name).parent)
    monkeypatch.setattr(CommonHeaderPlan, "make", make)
    for _ in range(2):
        assert f"tkjit_{name}.h" not in built(name).manifest["command"]
    assert tried == [f"tkjit_{name}.h"]


def test_headers_do_not_come_from_a_layer(cache_with_runtime, tmp_path, monkeypatch):
    """A read-only cache may have been built with another compiler or other system headers; a lookup checks neither."""
    monkeypatch.setenv("TKJIT_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("TKJIT_CACHE_READONLY", str(cache_with_runtime))
    loader = loader_for(Settings.from_environment())
    assert loader.runtime and directory_of(loader, LAUNCHER).is_relative_to(tmp_path / "own")


# ---- launchers


@pytest.mark.parametrize("options", [{"std": "c++23"}, {"flags": "-include cmath"}], ids=["standard", "include"])
def test_a_launcher_with_other_flags_does_not_use_the_header(loader, options):
    assert "tkjit_launcher.h" not in built(LAUNCHER, **options).manifest["command"]


def test_the_compiler_rejects_the_header_only_if_a_macro_of_the_flags_occurs_in_it(loader, tmp_path):
    entry = built(LAUNCHER, source=f"{SOURCE}\n#if LENGTH_OF_MINE != 3\n#error\n#endif", flags="-DLENGTH_OF_MINE=3")
    assert refusal(entry.manifest["command"], tmp_path) == ""
    with pytest.raises(CompileError, match="rank") as error:
        built(LAUNCHER, source=f"{SOURCE}\n// rank", flags="-Drank=3")
    assert re.search("rank. is defined", refusal(error.value.command, tmp_path))


@pytest.mark.parametrize("way", sample(["", "flags", "include_dirs", "CPATH"], "", "flags"))
def test_a_launcher_has_the_same_dependencies_without_the_header(cache_with_runtime, tmp_path, monkeypatch, way):
    own = tmp_path / "own"
    own.mkdir()
    (own / "own.h").write_text("#include <vector>\n")
    given = {"flags": {"flags": f"-DX=1 -I{own}"}, "include_dirs": {"include_dirs": own}}.get(way, {})
    if way == "CPATH":
        monkeypatch.setenv("CPATH", str(own))
    included = f"#include <own.h>\n{SOURCE}" if way else SOURCE

    def dependencies() -> dict[str, object]:
        entry = built(LAUNCHER, source=included, **given)
        commands.append(entry.manifest["command"])
        return read_dependencies(entry.directory, entry.manifest)

    commands: list[str] = []
    with_it = dependencies()
    loader = loader_for(Settings.from_environment())
    monkeypatch.setattr(loader.env, "common_header", lambda plan: None)
    assert with_it == dependencies()
    assert ["tkjit_launcher.h" in command for command in commands] == [True, False]
    assert bool(way) == any(name.endswith("own.h") for name in with_it["files"])


def test_a_users_file_that_shadows_one_in_the_header_is_read(loader, tmp_path):
    (tmp_path / "tkjit").mkdir()
    own = "#define HIDDEN 1\n#include_next <stdio.h>\n"
    (tmp_path / "stdio.h").write_text(own)
    (tmp_path / "f.cu").write_text(f"{SOURCE}\n#ifndef HIDDEN\n#error\n#endif\n")
    entry = built(LAUNCHER, source=str(tmp_path / "f.cu"))
    assert "tkjit_launcher.h" not in entry.manifest["command"]


@pytest.mark.slow
def test_builds_for_a_debugger_do_not_use_the_header(fresh, cache_with_runtime, tmp_path):
    code = """
import torch, tkjit
from tkjit.config import Settings
from tkjit.errors import CacheError, CompileError
from tkjit.loader import common_headers, loader_for
from tkjit.spec import variants_of
loader = loader_for(Settings.from_environment())
spec = tkjit.find("axpy").specs[0]
entry = loader.launcher(spec, variants_of(spec)[0], loader.target("cpu"))
assert "tkjit_launcher.h" not in entry.manifest["command"]
"""
    fresh.run(code, TKJIT_CACHE=str(cache_with_runtime), TKJIT_SIM_DEBUG="1")


# ---- glue


@pytest.mark.parametrize("lost", ["flags", "path"])
def test_load_inline_builds_glue_if_the_runtimes_flags_are_unknown(loader, monkeypatch, lost):
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


def test_building_glue_does_not_import_cpp_extension(fresh, cache_with_runtime, loader):
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


def test_glue_flags_are_derived_from_the_flags_of_the_runtime():
    own = ("-O1", "-g0")
    ldflags = "-shared -L/usr -lc10"
    given = f"-DTORCH_EXTENSION_NAME=tkjit_1 -DX -I{RUNTIME} -isystem /usr -fPIC -std=c++20 -O1 -g0"
    words = ["-DX", f"-I{RUNTIME}", "-isystem", "/usr", "-fPIC", "-std=c++20", "-O2"]
    assert glue_flags(given, ldflags, own, ["-O2"]) == (words, ["-shared"])
    assert glue_flags(given + " -more", ldflags, own, ["-O2"]) is None
    assert glue_flags('-DX="a b" -O1 -g0', ldflags, own, ["-O2"]) is None
    assert glue_flags(given.replace("/usr", "/not/here"), ldflags, own, ["-O2"]) is None
