"""Compiler flags from a spec and a target, computed without a compiler."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.specs import changed, spec_of

from tkjit.compile import flags
from tkjit.compile.flags import Flags, launcher_flags
from tkjit.compile.targets import Target
from tkjit.spec import Field, Source
from tkjit.spec.expr import Expr

SPEC = spec_of(
    name="f",
    entry="f",
    fields=(Field("x", "in", "float32", dims=(Expr("N"),)),),
    order=("x",),
    sources=(("", Source(text="{}")),),
    grid=(Expr("1"),),
    block=(Expr("1"),),
    flags=("-lineinfo", "-DMINE", "-Xptxas=-O1"),
    defines=(("TILE", "64"),),
    include_dirs=(Path("/headers"),),
    libraries=("cublas",),
    std="c++17",
)
GPU, CPU = Target("90a"), Target("cpu", "x86-64-v3")


def test_the_flags_for_a_gpu():
    result = launcher_flags(SPEC, GPU, Path("/home/research"))
    assert [flag for flag in result.compile if "gencode" in flag] == ["-gencode=arch=compute_90a,code=sm_90a"]
    assert not [flag for flag in result.compile if flag.startswith("-arch")]
    assert {"-std=c++17", "-cudart=static", "-shared", "-DTILE=64", *SPEC.flags} <= set(result.compile)
    assert result.paths == (f"-I{flags.INCLUDE}", "-I/home/research", "-I/headers", f"-I{flags.CUDA_LIBRARIES}")
    assert result.include_dirs == (flags.INCLUDE, Path("/home/research"), Path("/headers"), flags.CUDA_LIBRARIES)
    assert result.link == ("-lcublas",)


def test_the_flags_for_the_cpu():
    result = launcher_flags(SPEC, CPU, None)
    assert {"-std=c++17", "-march=x86-64-v3", "-shared", "-fPIC", "-DTILE=64", "-DMINE"} <= set(result.compile)
    assert result.paths == (f"-I{flags.INCLUDE}", f"-I{flags.SIMULATOR}", "-I/headers", f"-I{flags.CUDA_LIBRARIES}")
    assert not {"-lineinfo", "-Xptxas=-O1"} & set(result.compile)
    assert result.link == ("-lcublas",)


def test_preprocessor_and_linker_flags_of_a_spec_reach_every_compiler():
    own = ("-include", "chrono", "-lineinfo", "-L/lib", "-Wl,-rpath,/lib", "-isystem", "/x", "-Xptxas=-O1", "-lfoo")
    result = launcher_flags(changed(SPEC, flags=own, libraries=()), CPU, None)
    assert result.compile[-4:] == ("-include", "chrono", "-isystem", "/x")
    assert result.link == ("-L/lib", "-Wl,-rpath,/lib", "-lfoo")


@pytest.mark.parametrize("target", [GPU, CPU], ids=["gpu", "cpu"])
def test_the_order_of_flags_is_deterministic(target):
    assert launcher_flags(SPEC, target, None) == launcher_flags(SPEC, target, None)


@pytest.mark.parametrize(
    "change",
    [{"flags": ("-DOTHER",)}, {"defines": ()}, {"include_dirs": ()}, {"libraries": ()}, {"std": "c++20"}],
    ids=lambda change: next(iter(change)),
)
@pytest.mark.parametrize("target", [GPU, CPU], ids=["gpu", "cpu"])
def test_every_compiler_option_of_a_spec_changes_the_flags(target, change):
    assert launcher_flags(changed(SPEC, **change), target, None) != launcher_flags(SPEC, target, None)


@pytest.mark.parametrize(
    "given, names",
    [
        (Flags(("-O2",), link=("-L/lib", "-lcublas", "-lfoo")), ("cublas", "foo")),
        (Flags(("-lineinfo", "-lfoo", "-l")), ("foo",)),
        (Flags(("-O2", "-lineinfo")), ()),
    ],
)
def test_the_names_of_linked_libraries_are_found(given, names):
    assert given.libraries == names


def test_search_contains_every_directory_for_headers_and_libraries():
    spec = changed(SPEC, flags=("-I/a", "-isystem", "/b", "-L/lib", "-O3"), include_dirs=(Path("/given"),))
    for target in (Target("90a"), Target("cpu", "x86-64-v3")):
        search = launcher_flags(spec, target, Path("/kernels")).search
        assert {Path(place) for place in ("/a", "/b", "/lib", "/given", "/kernels")} <= set(search)


@pytest.mark.parametrize("flag", ["-lfoo", "-l:libfoo.a", "/opt/libfoo.a", "/opt/foo.o"])
def test_linked_files_are_recognized(flag):
    assert Flags(("-O3", flag)).links and not Flags(("-O3", "-lineinfo")).links
