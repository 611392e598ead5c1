"""Kernels based on a header library with its own struct types: each kind of spec, compared with references."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from support.sample_library.library import MITTENS, ROOT
from support.sample_library.specs import KERNELS
from support.sampling import sample

import tkjit
from tkjit import CompileError, In, InOut, Out, ShapeError, Tensor, ToolchainError
from tkjit.config import Settings
from tkjit.headers.install import install

pytestmark = pytest.mark.compiles
INPUTS = {
    "gemm": lambda: (torch.randn(40, 32).bfloat16(), torch.randn(32, 24).bfloat16()),
    "complex_product": lambda: tuple(torch.randn(100) for _ in range(4)),
    "row_sums": lambda: (torch.randn(6, 70),),
    "row_sums_by_host": lambda: (torch.randn(6, 70),),
    "copy_early": lambda: (torch.randn(100),),
}


@pytest.mark.parametrize("name", sample(sorted(INPUTS), "copy_early", "gemm", "row_sums", "row_sums_by_host"))
def test_a_kernel_matches_its_reference(name):
    inputs = INPUTS[name]()
    kernel = KERNELS[name]
    outputs = [None] * len(kernel.specs[0].outputs)
    by_name = dict(zip((f.name for f in kernel.specs[0].outputs), outputs, strict=True))
    torch.testing.assert_close(kernel(*inputs), kernel.reference(*inputs, **by_name))


@pytest.mark.slow
@pytest.mark.parametrize("cols", [32, 128])
def test_a_fixed_extent_of_the_structs_type_selects_the_variant(cols):
    """The struct is nested in a template and deduced from the entry; it sets its own grid, block and shared memory."""
    x = torch.randn(5, cols)
    assert torch.equal(KERNELS["row_scale"](x, 3.0), x.flip(1) * 3)


def test_an_extent_without_a_variant_is_rejected():
    with pytest.raises(ShapeError, match="D is 32 or 128"):
        KERNELS["row_scale"](torch.randn(5, 64), 3.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_computed_integers_are_passed_in_the_struct_and_after_it(dtype):
    x, residual = torch.randn(7, 50).to(dtype), torch.randn(7, 50).to(dtype)
    assert torch.equal(KERNELS["add_residual"](x, residual), x + residual)


@pytest.mark.slow
def test_the_library_can_have_its_own_parallel_layout():
    parts, sums = [torch.randn(9), torch.randn(9)], [torch.zeros(9), torch.zeros(9)]
    KERNELS["device_sums"](parts, sums)
    for device in (0, 1):
        assert torch.equal(sums[device], parts[0] + parts[1] + device)


def test_a_parallel_layout_rejects_another_number_of_devices():
    parts, sums = [torch.randn(9) for _ in range(3)], [torch.zeros(9) for _ in range(3)]
    with pytest.raises(tkjit.TkjitError, match=r"device_sums: .*2"):
        KERNELS["device_sums"](parts, sums)


def test_clusters():
    x = torch.randn(100)
    assert torch.equal(KERNELS["copy_in_clusters"](x), x)


def test_the_simulators_compiler_gets_the_librarys_flags_and_macro():
    assert KERNELS["built_for"](torch.zeros(2, dtype=torch.int32)).tolist() == [90, 7]


# ---- wrong specs


def test_the_error_for_a_missing_member_names_it():
    @tkjit.kernel(
        "<mittens>/kernels/row_scale.cu", headers=MITTENS, entry="row_scale<32>", struct="auto", fields="x y times"
    )
    def scale(x: In[Tensor, "float32", "N", "K"], times: float, y: Out[Tensor, "float32", "N", "K"]) -> Tensor: ...

    with pytest.raises(CompileError, match=r"times.*row_scale_layout<32>::globals"):  # the member is called factor
        scale(torch.randn(2, 32), 1.0)


def test_a_tensor_that_contradicts_a_fixed_extent_is_rejected():
    @tkjit.kernel(
        "<mittens>/kernels/row_scale.cu", headers=MITTENS, entry="row_scale<32>", struct="auto", fields="x y factor"
    )
    def scale(x: In[Tensor, "float32", "N", "K"], factor: float, y: Out[Tensor, "float32", "N", "K"]) -> Tensor: ...

    with pytest.raises(ShapeError, match="x has cols=64; its type fixes 32"):
        scale(torch.randn(2, 64), 1.0)
    assert scale(torch.ones(2, 32), 2.0).sum() == 128


def described_as(dtype: str, fields: int) -> tkjit.Kernel:
    """A spec for the struct of gemm.cu, with a dtype and a number of fields that may be wrong."""
    options = {
        "headers": MITTENS,
        "entry": "mittens::kernel<gemm_template<16>>",
        "struct": "gemm_layout<16>::globals",
        "grid": 1,
        "block": 32,
    }
    source = "<mittens>/kernels/gemm.cu"
    scope = {"In": In, "InOut": InOut, "Tensor": Tensor}
    names = "ABCDE"[:fields]
    parameters = ", ".join(f'{name}: InOut[Tensor, "{dtype}", "M", "K"]' for name in names)
    exec(f"def wrong({parameters}): ...", scope)
    return tkjit.kernel(source, **options)(scope["wrong"])


def test_the_error_for_a_wrong_dtype_names_the_member():
    with pytest.raises(
        CompileError, match=r"the type of gemm_layout<16>::globals::A; the spec of wrong says otherwise"
    ):
        described_as("float32", 3)(*(torch.zeros(2, 2) for _ in range(3)))


@pytest.mark.parametrize("fields", [2])
def test_the_error_for_a_wrong_number_of_fields_names_the_struct(fields):
    with pytest.raises(CompileError, match=r"the number of fields of gemm_layout<16>::globals; the spec of wrong says"):
        described_as("bfloat16", fields)(*(torch.zeros(2, 2).bfloat16() for _ in range(fields)))


# ---- finding the library


def sums_of(library: tkjit.HeaderLibrary) -> tkjit.Kernel:
    @tkjit.kernel(
        "<mittens>/kernels/row_sums.cu",
        headers=library,
        entry="row_sums::kernel",
        struct="row_sums::globals",
        config="row_sums::config",
    )
    def sums_somewhere(x: In[Tensor, "float32", "M", "N"], sums: Out[Tensor, "float32", "M"]) -> Tensor: ...

    return sums_somewhere


def test_a_library_is_found_in_the_cache(cache_with_runtime):
    library = replace(MITTENS, root=None)
    with pytest.raises(ToolchainError, match="the headers of mittens are not found"):
        sums_of(library)(torch.ones(2, 3))
    install(library, Settings.from_environment(), ROOT)
    assert sums_of(library)(torch.ones(2, 3)).tolist() == [3, 3]


def test_a_root_without_the_library_is_rejected(tmp_path):
    with pytest.raises(ToolchainError, match=r"mittens is not in .* \(from the spec\): it has no include/mittens\.h"):
        sums_of(replace(MITTENS, root=tmp_path))(torch.ones(2, 3))


def test_a_library_for_gpus_only_is_rejected_on_the_cpu():
    with pytest.raises(ToolchainError, match="sums_somewhere uses mittens, which compiles only for GPUs"):
        sums_of(replace(MITTENS, runs_on_cpu=False))(torch.ones(2, 3))


# ---- bundles

SPEC = """
import tkjit
from tkjit import In, Out, Tensor

PAWS = tkjit.HeaderLibrary("paws", proof="include/mittens.h", flags=("-DMITTENS_FLAVOUR=7", "-include", "cstdint"))

@tkjit.kernel(
    "<paws>/kernels/row_scale.cu", headers=PAWS, entry="row_scale<D>", struct="auto", fields="x y factor",
    variants={"D": (32, 128)},
)
def rows_of_paws(x: In[Tensor, "float32", "N", "D"], factor: float, y: Out[Tensor, "float32", "N", "D"]) -> Tensor: ...


@tkjit.kernel(
    "#include <mittens.h>\\n__global__ void own(Globals g) { g.y[threadIdx.x] = 2 * g.x[threadIdx.x]; }",
    headers=PAWS, entry="own", grid=1, block="N",
)
def on_paws(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor: ...
"""


@pytest.mark.slow
def test_a_bundle_carries_the_sources_of_its_header_libraries(
    tmp_path, fresh, cache_with_runtime, operators, monkeypatch
):
    kernels, bundle, other = tmp_path / "kernels", tmp_path / "bundle", tmp_path / "other"
    kernels.mkdir()
    for name in ("rows_of_paws", "on_paws"):
        (kernels / f"{name}.py").write_text(SPEC)
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(kernels))
    operators(cache_with_runtime)
    install(replace(MITTENS, name="paws", root=None), Settings.from_environment(), ROOT)
    fresh.tkjit("bundle", "rows_of_paws", "--device", "cpu", "-o", bundle).printed()
    fresh.tkjit("bundle", "on_paws", "--device", "cpu", "-o", other).printed()
    carried = sorted(path.name for path in (bundle / "headers").rglob("*") if path.is_file())
    assert carried == ["row_scale.cu"] and not (other / "headers").exists()
    assert fresh.tkjit("cache", "verify", bundle).printed().endswith(" 0 problems\n")

    # as on a machine that has the bundles but not the library, and that may not compile
    monkeypatch.setenv("TKJIT_CACHE", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("TKJIT_CACHE_READONLY", f"{other}:{bundle}")
    rows = "import torch, tkjit; print(tkjit.load('rows_of_paws')(torch.arange(32.0).view(1, 32), 2.0)[0, 0].item())"
    assert fresh.run(rows, TKJIT_JIT="0") == "62.0\n"
    assert fresh.run("import torch, tkjit; print(tkjit.load('on_paws')(torch.ones(3)).tolist())") == "[2.0, 2.0, 2.0]\n"
    for launcher in bundle.glob("v1/*/cpu-*/rows_of_paws-*/*/launcher.so"):
        launcher.unlink()
    compiled = fresh.tkjit("warmup", "rows_of_paws", "--device", "cpu")
    assert compiled.code == 1
    assert "in the bundle has none of its headers; give HeaderLibrary('paws', root=...)" in compiled.stderr
