"""``tkjit.export`` and ``python -m tkjit export``: what they write, replace, reject and unpack."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import torch
from support.exported import Failed, Library

import tkjit
from tkjit import CacheError, CompileError, In, InOut, Out, SpecError, Tensor, ToolchainError
from tkjit.cli import main
from tkjit.spec.c_signature import c_signature

pytestmark = pytest.mark.compiles


def test_command_writes_and_replaces_an_export(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TKJIT_JIT", "0")  # programs may not compile, but an export is an explicit request
    output = tmp_path / "made"
    command = ["export", "axpy", "--name", "lib1", "--types", "float32", "--lang", "cpp,go", "--lang", "rust"]
    assert main([*command, "-o", str(output)]) == 0
    assert "1 functions for c, cpp, go, rust" in capsys.readouterr().out
    facts = json.loads((output / "export.json").read_text())
    assert facts["kernels"] == ["axpy"] and facts["languages"] == ["c", "cpp", "go", "rust"]
    assert {"go.mod", "Cargo.toml", "include/lib1.hpp", "lib/liblib1.so.1"} <= facts["files"].keys()
    library, y = Library(output, "lib1"), torch.ones(3)
    library("axpy", torch.ones(3), y, 2.0)
    assert y.tolist() == [3, 3, 3]
    with pytest.raises(Failed, match="axpy: this library has no code for T=float16 on cpu; it has code for T=float32"):
        library("axpy", y.half(), y.half(), 2.0)
    assert main([*command[:6], "-o", str(output)]) == 0  # an existing export is replaced
    assert not (output / "go.mod").exists()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--name", "lib"], "export: name at least one kernel"),
        (["axpy", "--name", "Lib"], "'Lib' cannot be the name of an export"),
        (["axpy", "--name", "tkjit_lib"], "'tkjit_lib' cannot be the name of an export"),
        (["axpy", "--name", "string"], "'string' cannot be the name of an export: it already has a meaning"),
        (["axpy", "--name", "int"], "'int' cannot be the name of an export: it already has a meaning"),
        (["axpy", "--name", "lib", "--lang", "go", "--package", "fmt"], "'fmt' cannot be the package of an export"),
        (["axpy", "--name", "lib", "--lang", "rust", "--package", "self"], "'self' cannot be the package of an export"),
        (["axpy", "--name", "lib", "--version", "one"], "'one' cannot be the version of an export"),
        (["axpy", "--name", "lib", "--lang", "java"], "unknown language java; expected one of c, cpp, go, rust, torch"),
        (["axpy", "--name", "lib", "--arch", "cpu,hopper"], "'hopper' is not a GPU architecture"),
        (["axpy", "--name", "lib", "--arch", ","], "the export lib has no targets; name at least one"),
        (["axpy", "--name", "lib", "--types", "float31"], "unknown dtype float31"),
        (["axpy", "--name", "lib", "--types", "int8"], "no variant of axpy has only the dtypes int8"),
        (["axpyy", "--name", "lib"], "no kernel is named 'axpyy'; did you mean axpy?"),
        (["axpy", "axpy", "--name", "lib"], "the export lib names a kernel twice"),
        (["all_reduce", "--name", "lib"], "all_reduce cannot be exported: it runs on several devices at once"),
    ],
)
def test_bad_commands_are_rejected(arguments, text, tmp_path, capsys):
    output = tmp_path / "made"
    assert main(["export", *arguments, "-o", str(output)]) == 1
    assert text in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_other_directories_are_not_replaced(tmp_path):
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(CacheError, match="exists and is not an export; name a new directory"):
        tkjit.export("axpy", name="lib", output=tmp_path)
    assert (tmp_path / "mine").read_text() == "precious"


def test_kernel_that_does_not_compile_leaves_no_files(tmp_path):
    @tkjit.kernel("__global__ void f(Globals g) { nonsense; }", entry="f", grid=1, block=1)
    def broken(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor: ...

    with pytest.raises(CompileError, match="nonsense"):
        tkjit.export(broken, name="lib", output=tmp_path / "made")
    assert not list(tmp_path.iterdir())


def test_unwritable_directory_is_reported(tmp_path):
    if os.geteuid() == 0:
        target = "/proc/made"  # not even root can write here
    else:
        tmp_path.chmod(0o500)
        target = tmp_path / "made"
    with pytest.raises(CacheError, match="cannot write the export"):
        tkjit.export("axpy", name="lib", output=target, types=["float32"])


def test_target_without_a_source_is_rejected(tmp_path):
    @tkjit.kernel(archs={"120a": "__global__ void f(Globals g) {}"}, entry="f", grid=1, block=1)
    def newer(x: InOut[Tensor, "float32", "N"]) -> None: ...

    with pytest.raises(ToolchainError, match="the simulator does not model"):
        tkjit.export(newer, name="lib", output=tmp_path / "made", archs=["cpu"])


def test_host_function_on_torch_tensors_is_rejected(tmp_path):
    source = "#include <torch/extension.h>\nvoid fill(torch::Tensor x, double by) { x.fill_(by); }"

    @tkjit.kernel(source, entry="fill", host=True)
    def fill(x, by): ...

    with pytest.raises(SpecError, match="fill cannot be exported: its source is written for PyTorch's tensors"):
        tkjit.export(fill, name="lib", output=tmp_path / "made")


def test_parameter_without_a_c_type_is_rejected():
    @tkjit.kernel("void f(Globals g) {}", entry="f", host=True)
    def named(x: In[Tensor, "float32", "N"], weights: dict[str, float]) -> None: ...

    with pytest.raises(SpecError, match=r"C has no type for weights: dict\[str, float\]"):
        c_signature(named.specs[0])


def interface(directory: Path) -> str:
    (found,) = re.findall(r'LIB_INTERFACE "(.*)"', (directory / "include/lib.h").read_text())
    return str(found)


@pytest.mark.slow  # compiles two exports
def test_two_versions_work_in_one_process(tmp_path):
    """Each program uses its own version, but a library with more functions also serves programs for one with fewer."""
    directories = {
        version: tkjit.export(*kernels, name="lib", output=tmp_path / version, types=["float32"], version=version)
        for version, kernels in {"1.0": ["axpy"], "1.1": ["axpy", "softmax"], "2.0": ["axpy"]}.items()
    }
    libraries = {version: Library(path, "lib") for version, path in directories.items()}
    for library in libraries.values():
        y = torch.ones(3)
        library("axpy", torch.ones(3), y, 2.0)
        assert y.tolist() == [3, 3, 3]
    libraries["1.1"]._call("lib_check_interface", [interface(directories["1.0"])])
    with pytest.raises(Failed, match="this library has no softmax, for which the program was compiled"):
        libraries["1.0"]._call("lib_check_interface", [interface(directories["1.1"])])
    with pytest.raises(Failed, match="the program was compiled for another version than this library has"):
        libraries["2.0"]._call("lib_check_interface", [interface(directories["1.0"])])
    assert {path.name for path in (directories["2.0"] / "lib").iterdir() if path.is_file()} == {
        "liblib.so",
        "liblib.so.2",
    }


def test_functions_with_the_same_name_are_rejected(tmp_path):
    source = "__global__ void f(Globals g) {}"

    @tkjit.kernel(source, entry="f", grid=1, block=1)
    def wkv(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor: ...

    @tkjit.kernel(source, entry="f", grid=1, block=1)
    def wkv_on(x: In[Tensor, "float32", "N"]) -> None: ...

    @tkjit.kernel(source, entry="f", grid=1, block=1)
    def wkv_shape(x: In[Tensor, "float32", "N"]) -> None: ...

    for other, languages, text in (
        (wkv_on, ["go"], "wkv_on cannot be exported: wkv already uses the name WkvOn in go"),
        (wkv_shape, [], "wkv_shape cannot be exported: wkv already uses the name wkv_shape in c"),
    ):
        with pytest.raises(SpecError, match=text):
            tkjit.export(wkv, other, name="lib", output=tmp_path / "made", languages=languages)
    assert not (tmp_path / "made").exists()


@pytest.mark.slow
def test_each_overload_is_a_separate_function(tmp_path):
    source = "__global__ void f(Globals g) { g.y[threadIdx.x] = g.x[threadIdx.x] + 1; }"

    @tkjit.kernel(source, entry="f", grid=1, block="N")
    def up(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor: ...

    @up.overload(source, entry="f", grid=1, block="M * N")
    def up(x: In[Tensor, "int32", "M", "N"], y: Out[Tensor, "int32", "M", "N"]) -> Tensor: ...

    library = Library(tkjit.export(up, name="lib", output=tmp_path / "made"), "lib")
    floats, ints = torch.zeros(3), torch.zeros(2, 2, dtype=torch.int32)
    library("up", floats, floats_out := torch.empty(3))
    library("up_overload1", ints, ints_out := torch.empty(2, 2, dtype=torch.int32))
    assert floats_out.tolist() == [1, 1, 1] and ints_out.tolist() == [[1, 1], [1, 1]]
