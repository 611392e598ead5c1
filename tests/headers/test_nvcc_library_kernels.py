"""Kernels based on a header library also compile for GPUs, and load on machines without a driver."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest
from support.sample_library.library import MITTENS
from support.sample_library.specs import KERNELS
from support.sampling import sample

import tkjit
from tkjit import CompileError, In, InOut, Out, Tensor
from tkjit.compile.targets import gpu_target
from tkjit.spec import Spec, Variant, variants_of

pytestmark = pytest.mark.nvcc
HOPPER = gpu_target("90a")
CHOICES = [(kernel.specs[0], variant) for kernel in KERNELS.values() for variant in variants_of(kernel.specs[0])]


def name_of(choice: tuple[Spec, Variant]) -> str:
    spec, variant = choice
    return f"{spec.name} {variant}".strip()


QUICK = ("row_scale D=32",)


@pytest.mark.parametrize(("spec", "variant"), sample(CHOICES, *QUICK, name=name_of))
def test_a_variant_compiles_and_loads_without_a_driver(loader, spec, variant):
    launcher = loader.launcher(spec, variant, HOPPER).shared_object
    ctypes.CDLL(str(launcher), mode=ctypes.RTLD_LOCAL | 2)  # RTLD_NOW: every symbol is found
    printed = subprocess.run(
        ["readelf", "--wide", "--dyn-syms", "-d", launcher], capture_output=True, text=True, check=True
    )
    wanted = [line for line in printed.stdout.splitlines() if " UND " in line or "NEEDED" in line]
    assert not any("libcuda" in line or " cu" in line for line in wanted), wanted


@pytest.mark.slow
def test_only_hopper_makes_tensor_maps(loader):
    """On Hopper each layout with tiles calls the driver, which is looked up at the first call."""
    spec = KERNELS["gemm"].specs[0]
    called = {arch: b"cuTensorMapEncodeTiled" in binary(loader, spec, arch) for arch in ("90a", "80")}
    assert called == {"90a": True, "80": False}


def binary(loader, spec, arch: str) -> bytes:
    return Path(loader.launcher(spec, Variant(), gpu_target(arch)).shared_object).read_bytes()


MACROS = [("80", "MITTENS_AMPERE"), ("89", "MITTENS_AMPERE"), ("90a", "MITTENS_HOPPER")]


@pytest.mark.parametrize(("arch", "macro"), sample(MACROS, "90a-MITTENS_HOPPER", name="-".join))
def test_the_macro_of_the_architecture_is_defined(loader, arch, macro):
    source = f"""
    #include <mittens.h>
    #ifndef {macro}
    #error "{macro} is missing"
    #endif
    struct one_layout {{ mittens::gl<float, 1, 1, 1, -1> x; }};
    __global__ void touch(const __grid_constant__ one_layout g) {{ g.x(0, 0) = MITTENS_FLAVOUR; }}
    """

    @tkjit.kernel(source, headers=MITTENS, entry="touch", struct="one_layout", grid=1, block=1)
    def touch(x: InOut[Tensor, "float32", "N"]) -> Tensor: ...

    loader.launcher(touch.specs[0], Variant(), gpu_target(arch))


def test_the_error_for_a_wrong_dtype_names_the_member(loader):
    @tkjit.kernel(
        "<mittens>/kernels/row_sums.cu",
        headers=MITTENS,
        entry="row_sums::kernel",
        struct="row_sums::globals",
        config="row_sums::config",
    )
    def wrong_sums(x: In[Tensor, "float32", "M", "N"], sums: Out[Tensor, "float64", "M"]) -> Tensor: ...

    with pytest.raises(
        CompileError, match="the type of row_sums::globals::sums; the spec of wrong_sums says otherwise"
    ):
        loader.launcher(wrong_sums.specs[0], Variant(), HOPPER)


@pytest.mark.slow
def test_the_error_for_a_skipped_field_names_the_struct(loader):
    @tkjit.kernel(
        "<mittens>/kernels/row_scale.cu", headers=MITTENS, entry="row_scale<32>", struct="row_scale_layout<32>::globals"
    )
    def skipping(x: InOut[Tensor, "float32", "N", 32]) -> Tensor: ...

    with pytest.raises(
        CompileError, match="the number of fields of row_scale_layout<32>::globals; the spec of skipping"
    ):
        loader.launcher(skipping.specs[0], Variant(), HOPPER)
