"""The search for NVRTC and for the headers of its version, and the translation of nvcc's flags."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tkjit import ToolchainError
from tkjit.compile import nvrtc
from tkjit.compile.nvrtc import Nvrtc, options_of


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        (["-DA=1", "-D", "B", "-U", "C", "-I/d", "-I", "/e"], ["-DA=1", "-DB", "-UC", "-I/d", "-I/e"]),
        (["-use_fast_math", "--use_fast_math"], ["--use_fast_math", "--use_fast_math"]),
        (["-lineinfo", "-G", "--maxrregcount", "64"], ["-lineinfo", "-G", "-maxrregcount=64"]),
        (["-Xptxas=-v,-O2", "-Xptxas", "-O1"], ["--ptxas-options=-v", "--ptxas-options=-O2", "--ptxas-options=-O1"]),
        (["-O3", "--expt-relaxed-constexpr", "--expt-extended-lambda", "-Xcompiler", "-Wall", "-Xcompiler=-O1"], []),
        (["--fmad=false", "-diag-suppress", "177"], ["-fmad=false", "-diag-suppress=177"]),
    ],
)
def test_nvccs_flags_are_translated(flags, options):
    assert options_of(flags) == options


@pytest.mark.parametrize(
    "flag", ["-rdc=true", "-isystem", "-include", "--compress-mode=size", "-std=c++17", "-lcublas"]
)
def test_a_flag_without_an_option_of_nvrtc_raises_an_error(flag):
    with pytest.raises(ValueError, match=f"^{re.escape(flag)}$"):
        options_of(["-DA", flag, "x"])


def install(root: Path, version: int | None) -> Path:
    """Write a library, and the headers of a version next to it."""
    (root / "lib").mkdir(parents=True)
    library = root / "lib/libnvrtc.so.13"
    library.write_bytes(b"no library")
    if version is not None:
        (root / "include").mkdir()
        (root / "include/cuda_runtime_api.h").write_text(f"#define CUDART_VERSION  {version}\n")
    return library


def test_headers_next_to_the_library_are_found(tmp_path):
    library = install(tmp_path / "own", 13000)
    assert nvrtc.include_dirs(library, "13.0.88", []) == (library.parents[1] / "include",)
    (tmp_path / "own/include/cccl").mkdir()
    assert nvrtc.include_dirs(library, "13.0.88", [])[1].name == "cccl"


def test_headers_of_another_toolkit_must_have_the_same_version(tmp_path):
    library, other = install(tmp_path / "own", None), install(tmp_path / "other", 13020).parents[1] / "include"
    assert nvrtc.include_dirs(library, "13.2.51", [other]) == (other,)
    with pytest.raises(
        ToolchainError, match=r"is NVRTC 13\.0, but there are no headers of CUDA 13\.0; .* those of 13\.2"
    ):
        nvrtc.include_dirs(library, "13.0.88", [other])
    with pytest.raises(
        ToolchainError, match=r'no headers of CUDA 13\.0; install them: .* -m pip install "tkjit\[gpu\]"'
    ):
        nvrtc.include_dirs(library, "13.0.88", [])


@pytest.mark.compiles
def test_a_library_that_cannot_be_opened_is_reported(tmp_path):
    library = install(tmp_path / "own", 13000)
    with pytest.raises(
        ToolchainError,
        match=r"libnvrtc\.so\.13 does not work: nvrtc: cannot open .*: invalid ELF header|file too short",
    ):
        nvrtc.described(library)


def test_cuda_home_is_searched_before_the_toolkit(tmp_path):
    places = list(nvrtc.candidates(nvrtc.directories(tmp_path / "home", tmp_path / "toolkit")))
    assert places[0] == tmp_path / "home/lib64/libnvrtc.so.14" and places[0] != places[1]
    assert tmp_path / "toolkit/lib/libnvrtc.so.13" in places


def test_architectures_with_suffixes_are_known():
    found = Nvrtc(Path("/lib/libnvrtc.so.13"), "13.2.51", ("80", "90", "100"), ())
    assert found.cuda == 13020
    assert found.knows("90a") and found.knows("100f") and found.knows("80") and not found.knows("75")
