"""Constants that a call passes, and variables of a source as tensors."""

import pytest
import torch
from support.symbols import convolve, scaled

import tkjit
from tkjit import ArgumentError, CompileError, Constant, InOut, ShapeError, SpecError, Tensor

pytestmark = pytest.mark.compiles
F32 = "float32"
TAPS, OFFSETS = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([[1, 2], [3, 4]], dtype=torch.int32)


def test_each_call_sets_its_constants():
    loaded, x = tkjit.load(convolve), torch.randn(70)
    for factor in (1, 2):
        torch.testing.assert_close(loaded(x, factor * TAPS, OFFSETS), convolve.reference(x, factor * TAPS, OFFSETS))
    assert torch.equal(loaded.symbol("taps"), 2 * TAPS)
    assert torch.equal(loaded.symbol("mine::offsets"), OFFSETS)


def test_variables_persist_between_launches():
    loaded, x = tkjit.load(convolve), torch.randn(4)
    counter = loaded.symbol("counter")
    assert counter.dtype is torch.uint64 and counter.shape == ()
    counter.zero_()
    for _ in range(3):
        loaded(x, TAPS, OFFSETS)
    assert counter.item() == 3
    assert loaded.symbol("mine::history").shape == (2, 3)
    assert loaded.symbol("mine::state").view(torch.float32)[1] == 1.0  # a struct is bytes


def test_next_launch_reads_a_value_written_to_a_symbol():
    loaded, x = tkjit.load(scaled), torch.ones(3)
    loaded.symbol("factor").fill_(1.0)
    assert loaded(x).tolist() == [1, 1, 1]
    loaded.symbol("factor").fill_(5.0)
    assert loaded(x).tolist() == [5, 5, 5]


def test_a_prepared_launch_sets_its_constants():
    x, taps = torch.randn(8), TAPS.clone()
    step = tkjit.load(convolve).prepare(x, taps, OFFSETS)
    torch.testing.assert_close(step(), convolve.reference(x, taps, OFFSETS))
    taps *= -1
    torch.testing.assert_close(step(), convolve.reference(x, taps, OFFSETS))


def test_invalid_constants_are_rejected():
    loaded, x = tkjit.load(convolve), torch.randn(4)
    with pytest.raises(ShapeError, match=r"taps is \(2,\) float32 on cpu; expected \(3,\) float32"):
        loaded(x, TAPS[:2], OFFSETS)
    with pytest.raises(ArgumentError, match=r"pass taps.to\(torch.float32\)"):
        loaded(x, TAPS.double(), OFFSETS)


def test_a_symbol_that_the_spec_lacks():
    with pytest.raises(SpecError, match="the spec has no symbol 'other'; it has taps, mine::offsets, counter"):
        tkjit.load(convolve).symbol("other")
    with pytest.raises(SpecError, match="has no symbol 'x'; it has none; name it in symbols="):
        tkjit.load("softmax").symbol("x")


@pytest.mark.parametrize("device", ["meta", "nowhere", 3.5])
def test_a_device_without_symbols(device):
    with pytest.raises(ArgumentError, match="convolve: "):
        tkjit.load(convolve).symbol("taps", device=device)


@pytest.mark.parametrize("symbols", [("a",), 3, "1x", "a[0]", "class"])
def test_invalid_symbol_names_are_rejected(symbols):
    with pytest.raises(SpecError, match='expected names of variables: "counter, mine::table"'):
        kernel_of("", Constant[Tensor, F32, 3], symbols=symbols)


def test_a_constant_of_a_variants_type():
    @tkjit.kernel(
        "__constant__ float table[4]; __global__ void f(T* x) {}",
        entry="f",
        grid=1,
        block=1,
        args=True,
        variants={"T": (F32, "bfloat16")},
    )
    def f(x: InOut[Tensor, "T", "N"], table: Constant[Tensor, "T", 4]) -> Tensor: ...

    tkjit.load(f)(torch.zeros(1), torch.ones(4))
    with pytest.raises(CompileError, match="the type of table; the spec of f says otherwise"):
        tkjit.load(f)(torch.zeros(1).bfloat16(), torch.ones(4).bfloat16())


def kernel_of(declared: str, constant: object, **options: str) -> tkjit.Kernel:
    @tkjit.kernel(f"{declared}\n__global__ void f(float* x) {{}}", entry="f", grid=1, block=1, args=True, **options)
    def f(x: InOut[Tensor, F32, "N"], table: constant) -> Tensor: ...

    return tkjit.load(f)


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ("__constant__ int table[3];", "the type of table; the spec of f says otherwise"),
        ("__constant__ double table[3];", "the type of table; the spec of f says otherwise"),
        ("__constant__ float other[3];", "table"),
    ],
)
def test_a_symbol_of_another_type_or_name(declared, text):
    with pytest.raises(CompileError, match=text):
        kernel_of(declared, Constant[Tensor, F32, 3])(torch.zeros(1), TAPS)


def test_a_symbol_of_another_size():
    loaded = kernel_of("__constant__ float table[4];", Constant[Tensor, F32, "M"])
    with pytest.raises(ShapeError, match="f: table has 3 elements; its symbol has 4"):
        loaded(torch.zeros(1), TAPS)
    loaded(torch.zeros(1), torch.ones(4))


@pytest.mark.parametrize("annotation", [Constant[Tensor, F32, 3] | None, Constant[list[Tensor], F32, 3]])
def test_a_bad_annotation(annotation):
    with pytest.raises(SpecError, match="a constant is one required tensor, without a default"):
        kernel_of("", annotation)
