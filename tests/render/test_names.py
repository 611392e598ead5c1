"""Arbitrary names of parameters and dims: a correct result or a SpecError."""

from __future__ import annotations

import keyword
import random
import re
from pathlib import Path

import pytest
import torch
from support.define import define, floats
from support.sampling import sample

import tkjit
from tkjit import In, Out, SpecError, Tensor
from tkjit.spec.cpp_words import CPP_KEYWORDS, MACROS

pytestmark = pytest.mark.compiles
PACKAGE = Path(tkjit.__file__).parent
HEADERS = [*PACKAGE.glob("runtime/*.h"), *PACKAGE.glob("include/tkjit/*.h")]
WORDS = {word for path in HEADERS for word in re.findall(r"\b[A-Za-z_]\w{0,20}\b", path.read_text())}
OURS = sorted(word for word in WORDS if not keyword.iskeyword(word))  # a keyword cannot name a parameter
CPPS = sorted({*CPP_KEYWORDS, *MACROS, "final", "override", "module", "std", "size_t", "main"} - {*keyword.kwlist})
SOURCE = """
__global__ void sum_into(const __grid_constant__ Globals g) {
    float total = g.FACTOR;
    for (int at = 0; at < g.XS.count; ++at)
        for (int column = 0; column < g.X.cols(); ++column) total += float(g.XS[at][column]) * float(g.X[column]);
    g.Y[0] = total;
}
"""


def summed(xs: str, x: str, y: str, factor: str, dim: str, *, order: str = "") -> tkjit.Kernel:
    """A kernel with the given names, which sums the products of a list's vectors with another vector."""
    code = f"def sum_into({x}: X, {xs}: XS, {factor}: float, {y}: Y) -> Tensor: ..."
    if order == "list first":
        code = f"def sum_into({xs}: XS, {x}: X, {factor}: float, {y}: Y) -> Tensor: ..."
    space = {
        "XS": In[list[Tensor], "float32", dim],
        "X": In[Tensor, "float32", dim],
        "Y": Out[Tensor, "float32", 1],
        "Tensor": Tensor,
    }
    exec(compile(code, "<names>", "exec", dont_inherit=True), space)
    names = {"XS": xs, "X": x, "Y": y, "FACTOR": factor}
    source = re.sub(r"\bg\.([A-Z]+)", lambda match: f"g.{names[match[1]]}", SOURCE)
    return tkjit.kernel(source, entry="sum_into", grid=f"min({dim}, 1)", block=1)(space["sum_into"])


def call(kernel: tkjit.Kernel, xs: str, x: str, factor: str) -> float:
    vectors = [torch.arange(5.0), torch.ones(5)]
    return kernel(**{xs: vectors, x: torch.full((5,), 2.0), factor: 0.5}).item()


@pytest.mark.parametrize("order", ["tensor first", "list first"])
def test_dim_with_the_name_of_a_loop_variable_is_still_checked(order):
    kernel = summed("xs", "x", "y", "factor", "i", order=order)
    assert call(kernel, "xs", "x", "factor") == 30.5
    lists = [[torch.ones(0)], [torch.ones(5), torch.ones(4)], [torch.ones(0), torch.ones(1), torch.ones(2)]]
    for wrong in lists:
        with pytest.raises(tkjit.ShapeError):
            kernel(xs=wrong, x=torch.ones(5), factor=0.5)


def drawn(number: int) -> list[str]:
    """Five different names: from our own headers, from C++, and one that is made from another name."""
    rng = random.Random(number)
    names = [*rng.sample(OURS, 3), rng.choice(CPPS if number % 2 else OURS)]
    prefix = rng.choice(["v_", "given_", "arg_", "list_of_", "item_of_", "shape_of_"])
    return rng.sample([*names, prefix + names[0]], 5)


@pytest.mark.parametrize("number", sample(range(24), "0", "1", "2"))
def test_any_name_works_or_is_rejected(number):
    xs, x, y, factor, dim = drawn(number)
    try:
        kernel = summed(xs, x, y, factor, dim)
    except SpecError as error:
        assert any(name in str(error) for name in (xs, x, y, factor, dim)), error
        return
    assert call(kernel, xs, x, factor) == 30.5, (xs, x, y, factor, dim)


def test_parameters_may_have_names_that_the_rendered_code_uses():
    taken = "args call given stream_ shape device globals result empty launch text entry tkjit_ kernel".split()
    taken = [name for name in taken if not name.startswith("tkjit_")]
    fields = ", ".join(f"{name}: int" for name in taken)
    total = " + ".join(f"g.{name}" for name in taken)
    kernel = define(
        f"__global__ void add(Globals g) {{ g.state[0] = g.view[0] + {total}; }}",
        f'(view: In[Tensor, "int32", "leading"], {fields}, *, state: Out[Tensor, "int32", "leading"] = None) -> Tensor',
        entry="add",
        grid="min(args, 1) * max(call // call, 1)",
        block="cdiv(shape, shape) + given - given + stream_ - stream_",
        constraints=["leading == 1", "device < entry"],
    )
    values = range(1, len(taken) + 1)
    x = torch.tensor([1000], dtype=torch.int32)
    assert kernel(x, *values).tolist() == [1000 + sum(values)]
    assert kernel(view=x, **dict(zip(taken, values, strict=True))).tolist() == [1000 + sum(values)]


def test_every_name_in_the_glue_may_name_a_parameter():
    words = set(re.findall(r"[A-Za-z_]\w*", re.sub(r'//.*|"[^"]*"', "", tkjit.find("gemm").render().glue)))
    taken = {"x", "n", "out", "stream", "self", "Globals", "None", "True", "False", "min", "max", "cdiv"}
    usable = sorted(w for w in words - taken if w.isidentifier() and not keyword.iskeyword(w) and w not in CPP_KEYWORDS)
    usable = [
        w for w in usable if not re.match(r"tkjit_|Tkjit|TKJIT|TORCH|Py|overload_|signature_|parameters_|[abcTMKN]$", w)
    ]
    assert {"call", "given", "found", "args"} <= set(usable)
    parameters = ", ".join(f"{word}: int = {i}" for i, word in enumerate(usable))
    kernel = define(
        f"__global__ void f(Globals g) {{ g.x[0] = g.{usable[-1]}; }}",
        f'(x: InOut[Tensor, "float32", 1], {parameters}) -> Tensor',
        entry="f",
        grid=1,
        block=1,
    )
    assert kernel(floats(-1)).item() == len(usable) - 1
