"""Variants that stand for an enumerator or a type of the source. A call passes its name as a str."""

import itertools

import pytest
import torch
from support.named_variants import combine

import tkjit
from tkjit import ArgumentError, CompileError, In, InOut, Out, SpecError, Tensor

pytestmark = pytest.mark.compiles

MODES, POLICIES = ("ops::Mode::add", "ops::Mode::multiply"), ("Tile<32>", "Whole")


@pytest.mark.parametrize(("mode", "policy"), list(itertools.product(MODES, POLICIES)))
def test_each_variant(mode, policy):
    x = torch.randn(70)
    y = tkjit.load(combine)(x, mode=mode, policy=policy)
    torch.testing.assert_close(y, combine.reference(x, mode=mode, policy=policy))


def test_defaults_together_with_a_dtype_variant():
    x = torch.randn(70, dtype=torch.float64)
    assert torch.equal(tkjit.load(combine)(x), x + 256)


def test_torch_compile_chooses_a_variant():
    loaded = tkjit.load(combine)
    compiled = torch.compile(lambda x: loaded(x, mode=MODES[1]), fullgraph=True, backend="aot_eager")
    x = torch.randn(70)
    torch.testing.assert_close(compiled(x), x * 256)


def test_the_gradient_gets_the_chosen_name():
    source = """
    struct once { static constexpr int times = 1; };
    struct twice { static constexpr int times = 2; };
    template <class How> __global__ void scale(Globals g) { g.y[threadIdx.x] = How::times * g.x[threadIdx.x]; }
    """

    @tkjit.kernel(
        source,
        entry="scale<how>",
        grid=1,
        block="N",
        variants={"how": ("once", "twice")},
        backward=lambda grad_y, how: {"once": 1, "twice": 2}[how] * grad_y,
    )
    def scale(x: In[Tensor, "float32", "N"], how: str, *, y: Out[Tensor, "float32", "N"]) -> Tensor: ...

    x = torch.randn(3).requires_grad_()
    tkjit.load(scale)(x, "twice").sum().backward()
    assert x.grad.tolist() == [2.0] * 3


def test_unknown_variants_are_rejected():
    loaded, x = tkjit.load(combine), torch.randn(70)
    with pytest.raises(ArgumentError) as raised:
        loaded(x, mode="add")
    assert str(raised.value) == "combine: mode is 'add' (str); expected ops::Mode::add or ops::Mode::multiply"
    with pytest.raises(ArgumentError, match=r"mode is 3 \(int\); expected str"):
        loaded(x, mode=3)


def test_an_option_that_the_source_lacks():
    @tkjit.kernel(
        "enum class M { a }; template <M m> __global__ void f(float* x) {}",
        entry="f<m>",
        grid=1,
        block=1,
        args=True,
        variants={"m": ("M::a", "M::b")},
    )
    def f(x: InOut[Tensor, "float32", "N"], m: str) -> Tensor: ...

    loaded = tkjit.load(f)
    loaded(torch.zeros(1), "M::a")
    with pytest.raises(CompileError, match=r"b.* is not a member of .*M"):
        loaded(torch.zeros(1), "M::b")


@pytest.mark.parametrize(
    ("entry", "options", "default", "text"),
    [
        ("f", ("M::a",), "M::a", "m chooses a variant, but the entry 'f' does not use it; write f<m>"),
        ("f<m>", ("M::a",), "M::c", "m chooses a variant: it cannot be None, and its default must be one of M::a"),
        ("f<m>", ("M::a;",), "M::a", r"'M::a;' is not a C\+\+ enumerator or type"),
        ("f<m>", ("M::a", 3), "M::a", "names of the source for a str parameter"),
    ],
)
def test_bad_variants_are_rejected(entry, options, default, text):
    with pytest.raises(SpecError, match=text):

        @tkjit.kernel("", entry=entry, grid=1, block=1, args=True, variants={"m": options})
        def f(x: InOut[Tensor, "float32", "N"], m: str = default) -> Tensor: ...


def test_a_parameter_with_named_options_must_be_a_str():
    with pytest.raises(SpecError, match="m is a field and a variant with string options; annotate it as a str"):

        @tkjit.kernel("", entry="f<m>", grid=1, block=1, args=True, variants={"m": ("M::a",)})
        def f(x: InOut[Tensor, "float32", "N"], m: int) -> Tensor: ...
