"""Specs of kernels over several devices: required options and generated code."""

from __future__ import annotations

import re

import pytest

import tkjit
from tkjit import In, InOut, Out, ParallelTensor, SpecError, Tensor
from tkjit.spec import spec_of_function
from tkjit.spec.schema import has_operator, schema_of


def total(x: In[ParallelTensor, "float32", "N"], y: Out[Tensor, "float32", "N // num_devices"]) -> Tensor: ...


def spec(function=total, **options):
    given = {"entry": "total", "grid": "cdiv(N, 64) + dev_idx", "block": 64, **options}
    return spec_of_function(function, "__global__ void total(Globals g) {}", **given)


def rendered(function, **options):
    given = {"entry": function.__name__, "grid": 1, "block": 64, **options}
    return tkjit.kernel("__global__ void total(Globals g) {}", **given)(function).render()


def refusal(function=total, **options) -> str:
    with pytest.raises(SpecError) as caught:
        spec(function, **options)
    return str(caught.value)


def test_kernel_with_a_parallel_tensor_runs_on_several_devices():
    found = spec()
    assert found.is_parallel and [f.is_parallel for f in found.fields] == [True, False]
    assert not has_operator(found)
    with pytest.raises(SpecError, match="PyTorch has no type for x: ParallelTensor"):
        schema_of(found)


@pytest.mark.parametrize("missing", ["dev_idx", "num_devices"])
def test_struct_without_device_index_or_count_is_rejected(missing):
    computed = {"dev_idx": "dev_idx", "num_devices": "num_devices"}
    del computed[missing]
    message = refusal(struct="globals", computed=computed)
    assert message.startswith(f"total: the struct globals has no {missing}")
    assert f"add computed={{'{missing}': '{missing}'}}" in message


def test_dev_idx_cannot_be_a_constant():
    assert "has no dev_idx" in refusal(struct="globals", computed={"dev_idx": 0, "num_devices": "num_devices"})


def test_struct_type_can_fix_the_number_of_devices():
    assert spec(struct="globals", computed={"dev_idx": "dev_idx"}, num_devices=8).num_devices == 8


def test_restrictions_of_kernels_over_several_devices():
    def listed(x: In[ParallelTensor, "float32", "N"], y: In[list[Tensor], "float32", "N"]): ...
    def maybe(x: In[ParallelTensor, "float32", "N"], y: In[Tensor, "float32", "N"] | None): ...
    def out(x: In[Tensor, "float32", "N"], y: Out[ParallelTensor, "float32", "N"]): ...
    def club(x: In[ParallelTensor, "float32", "N"], club: int): ...
    def index(x: In[ParallelTensor, "float32", "N"], dev_idx: int): ...

    assert "cannot have lists of tensors or optional tensors" in refusal(listed)
    assert "cannot have lists of tensors or optional tensors" in refusal(maybe)
    assert "a parallel layout is a required input" in refusal(out)
    assert "a field cannot be named club" in refusal(club, grid=1)
    assert "a field cannot be named dev_idx" in refusal(index, grid=1)
    assert "the entry total has no dev_idx, which a kernel over several devices needs" in refusal(args=True)
    assert "a kernel over several devices cannot have backward=" in refusal(backward="total_backward")
    assert "num_devices=33; expected up to 32" in refusal(num_devices=33)


def test_other_kernels_cannot_use_device_names():
    def plain(x: In[Tensor, "float32", "N"]): ...

    assert "undefined dim dev_idx" in refusal(plain)
    assert "num_devices= is only for kernels with a ParallelTensor" in refusal(plain, grid=1, num_devices=2)


def test_overloads_are_rejected():
    kernel = tkjit.kernel("__global__ void total(Globals g) {}", entry="total", grid=1, block=1)(total)
    with pytest.raises(SpecError, match="has one signature and cannot have overloads"):
        kernel.overload("__global__ void total(Globals g) {}", entry="total", grid=1, block=1)(total)


def test_rendered_struct_has_the_device_index_and_count():
    text = rendered(total, grid="cdiv(N, 64) + dev_idx").launcher
    struct = re.search(r"struct Globals \{(.*?)\};", text, re.DOTALL)[1]
    members = [line.split("//")[0].strip() for line in struct.strip().splitlines()]
    assert members == [
        "tkjit::pgl<float, 1, 1, 1, -1> x;",
        "tkjit::gl<float, 1, 1, 1, -1> y;",
        "int dev_idx;",
        "int num_devices;",
    ]
    assert "const tkjit::Int v_dev_idx = tkjit::parallel_of(arg_x).dev_idx;" in text
    assert "const tkjit::Int v_num_devices = tkjit::parallel_of(arg_x).count;" in text


def test_glue_takes_lists_and_a_club():
    def both(x: InOut[ParallelTensor, "float32", "N"], y: In[Tensor, "float32", "N"], n: int = 1): ...

    text = rendered(both).glue
    assert '{"x", true, false, Spread::parallel, true},' in text
    assert '{"y", true, false, Spread::each},' in text
    assert '{"n", false, false},' in text and '{"club", false, true},' in text
    assert "return dispatch_parallel(call, overloads[0], signature_0, {0, 3, 4});" in text
    assert "#include <glue_parallel.h>" in text


def test_signature_has_parallel_tensors_and_a_club():
    kernel = tkjit.find("all_gather")
    assert str(kernel.signature).startswith("(x: 'ParallelTensor', signals: 'ParallelTensor', *, y:")
    assert "club: 'Club | None' = None" in str(kernel.signature)
