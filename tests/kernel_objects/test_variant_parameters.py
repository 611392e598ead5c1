"""Parameters that choose a variant: a bool or an integer of the call becomes a template argument."""

import pytest
import torch

import tkjit
from tkjit import In, Out, ShapeError, SpecError, Tensor
from tkjit.testing import check

pytestmark = pytest.mark.compiles

SOURCE = """
template <int STEP, bool reverse>
__global__ void walk(Globals g) {
    const int n = g.x.cols(), i = blockIdx.x * STEP;
    for (int j = i; j < i + STEP && j < n; ++j) g.y(0, j) = g.x(0, reverse ? n - 1 - j : j);
}
"""
OPTIONS = {
    "entry": "walk<STEP, reverse>",
    "grid": "cdiv(N, STEP)",
    "block": 1,
    "variants": {"STEP": (2, 8), "reverse": (False, True)},
}


@tkjit.kernel(SOURCE, fields="x y", **OPTIONS)
def walk(
    x: In[Tensor, "float32", "N"], STEP: int = 2, reverse: bool = False, *, y: Out[Tensor, "float32", "N"]
) -> Tensor:
    """Returns x, or x reversed."""
    return x.flip(0) if reverse else x.clone()


X = torch.arange(11.0)


def test_bool_chooses_the_template_argument():
    load = tkjit.load(walk)
    assert torch.equal(load(X), X)
    assert torch.equal(load(X, reverse=True), X.flip(0))
    assert torch.equal(load(X, 8, True), X.flip(0))


def test_variant_parameter_can_be_left_out_of_the_struct():
    text = str(walk.render(STEP=8, reverse=True))
    assert "constexpr bool reverse = true;" in text and "constexpr int STEP = 8;" in text
    members = text.partition("struct Globals {")[2].partition("};")[0]
    assert "x;" in members and "reverse" not in members and "STEP" not in members


def test_integer_without_a_variant_is_rejected():
    with pytest.raises(ShapeError, match=r"STEP is 2 or 8 does not hold \(STEP=4\)"):
        tkjit.load(walk)(X, 4)


def test_call_in_a_compiled_graph_takes_the_parameter():
    load = tkjit.load(walk)
    assert torch.equal(torch.compile(lambda x: load(x, reverse=True), backend="eager", fullgraph=True)(X), X.flip(0))


def test_without_fields_the_parameter_is_also_a_member():
    source = SOURCE.replace("reverse ?", "reverse && g.reverse ?").replace("walk(", "walk2(")

    @tkjit.kernel(source, **{**OPTIONS, "entry": "walk2<STEP, reverse>"})
    def walk2(x: In[Tensor, "float32", "N"], STEP: int, reverse: bool, y: Out[Tensor, "float32", "N"]): ...

    assert torch.equal(tkjit.load(walk2)(X, 8, True), X.flip(0))


def test_true_can_come_before_false():
    @tkjit.kernel(SOURCE, fields="x y", **{**OPTIONS, "variants": {"reverse": (True, False), "STEP": (2, 8)}})
    def walk3(
        x: In[Tensor, "float32", "N"], STEP: int = 2, reverse: bool = False, *, y: Out[Tensor, "float32", "N"]
    ): ...

    load = tkjit.load(walk3)
    assert torch.equal(load(X), X) and torch.equal(load(X, 8, reverse=True), X.flip(0))


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"variants": {"STEP": (2, 8), "reverse": (True,)}}, r"variants\['reverse'\] has one option"),
        ({"variants": {"STEP": (2, 8), "turned": (False, True)}}, "no parameter turned: bool"),
        (
            {"variants": {"STEP": (2, 8), "reverse": (False, 1)}},
            r"expected dtype names, integers, \(False, True\), or names of the source",
        ),
        (
            {"variants": {"STEP": (2, 8)}},
            "must name each parameter once",
        ),  # without a variant, reverse must be a member
        ({"trailing": "reverse"}, "names unknown parameters: reverse"),
    ],
)
def test_contradictions_are_rejected(changed, message):
    with pytest.raises(SpecError, match=message):

        @tkjit.kernel(SOURCE, fields="x y", **{**OPTIONS, **changed})
        def wrong(x: In[Tensor, "float32", "N"], STEP: int, reverse: bool, y: Out[Tensor, "float32", "N"]): ...


@pytest.mark.slow  # builds two checkers
def test_checker_runs_both_options():
    check(walk)
    wrong = SOURCE.replace("reverse ? n - 1 - j", "reverse ? n - j")  # past the end

    @tkjit.kernel(wrong.replace("walk(", "beyond("), fields="x y", **{**OPTIONS, "entry": "beyond<STEP, reverse>"})
    def beyond(
        x: In[Tensor, "float32", "N"], STEP: int = 2, reverse: bool = False, *, y: Out[Tensor, "float32", "N"]
    ): ...

    with pytest.raises(AssertionError, match="reverse=True"):
        check(beyond)
