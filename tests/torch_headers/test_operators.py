"""Torch's operators as C++ declarations, generated from the installed torch's description of them."""

from __future__ import annotations

import re
import subprocess
import sysconfig

import pytest
import torch

from tkjit.compile.flags import INCLUDE
from tkjit.torch_headers.needed import TORCH_STAND_INS, torch_include
from tkjit.torch_headers.operators import declarations_for, operators_by_name


def test_operator_is_a_method_and_a_function():
    text = declarations_for({"index_select"})
    assert "at::Tensor index_select(int64_t dim, const at::Tensor & index) const {" in text
    assert "inline at::Tensor index_select(const at::Tensor & self, int64_t dim, const at::Tensor & index) {" in text
    assert 'call<at::Tensor>("aten::index_select", "", *this, dim, index)' in text


def test_each_overload_has_its_name():
    text = declarations_for({"max"})
    assert {'"dim"', '"other"', '""'} <= set(re.findall(r'"aten::max", ("\w*")', text))


def test_options_become_the_arguments_of_the_schema():
    text = declarations_for({"zeros"})
    assert "zeros(at::IntArrayRef size, at::TensorOptions options={})" in text
    assert "options.dtype_opt(), options.layout_opt(), options.device_opt(), options.pinned_memory_opt()" in text


def test_each_option_of_a_factory_can_be_passed_separately():
    text = declarations_for({"zeros"})
    apart = re.search(r"zeros\(at::IntArrayRef size, ::std::optional<at::ScalarType> dtype, [^)]*\)", text)
    assert apart and "=" not in apart[0] and '"aten::zeros", "", size, dtype, layout, device, pin_memory' in text


def test_outputs_come_first_and_are_returned():
    text = declarations_for({"mm_out"})
    assert "at::Tensor & mm_out(at::Tensor & out, const at::Tensor & self, const at::Tensor & mat2)" in text
    assert "return out;" in text


def test_in_place_operator_returns_its_tensor():
    text = declarations_for({"mul_"})
    assert 'call<void>("aten::mul_", "Tensor", *this, other); return const_cast<at::Tensor &>(*this);' in text


def test_other_words_declare_nothing():
    assert declarations_for({"kernel", "blockIdx", "forward_pass"}) == ""


@pytest.mark.compiles
def test_every_operator_compiles(tmp_path):
    text = declarations_for(operators_by_name().keys())
    assert text.count("call<") > 3500
    source = tmp_path / "every.cpp"
    source.write_text(f"{text}#include <torch/extension.h>\n")
    directories = [INCLUDE, TORCH_STAND_INS, torch_include(), sysconfig.get_paths()["include"]]
    command = ["g++", "-std=c++20", "-fsyntax-only", *(f"-I{directory}" for directory in directories), source]
    compiled = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert compiled.returncode == 0, compiled.stderr[:4000]


def test_operator_with_two_names_is_declared_once():
    text = declarations_for({"max_out", "max_outf"})
    assert text.count("max_outf(const at::Tensor & self, int64_t dim, bool keepdim") == 1


@pytest.mark.parametrize(
    "name", ["add", "scatter_reduce", "topk", "linalg_norm", "embedding_bag", "_unique2", "grid_sampler_2d"]
)
def test_calls_pass_the_schemas_arguments(name):
    """Each call passes as many arguments as the registered operator takes."""
    for called in re.findall(r'call<[^"]*>\(("aten::[^;]*)\);', declarations_for({name})):
        operator, overload, *arguments = re.sub(r"\([^()]*\)", "", called).split(", ")
        packet = getattr(torch.ops.aten, operator.strip('"').removeprefix("aten::"))
        schema = getattr(packet, overload.strip('"') or "default")._schema
        assert len(arguments) == len(schema.arguments), called
