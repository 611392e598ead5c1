"""Random numbers in kernels: Philox with the seed and the offset of torch's generators."""

import pytest
import torch

import tkjit
from tkjit import ArgumentError, Generator, In, Out, Scalar, ShapeError, SpecError, Tensor

pytestmark = pytest.mark.compiles

DROPOUT = """
__global__ void dropout(Globals g) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = 4 * thread, draw = 0; i < g.x.cols(); i += 4 * gridDim.x * blockDim.x, ++draw) {
        const float4 u = g.rng.uniform(thread, draw);
        const float four[] = {u.x, u.y, u.z, u.w};
        for (int k = 0; k < 4 && i + k < g.x.cols(); ++k) g.y[i + k] = four[k] <= g.keep ? g.x[i + k] / g.keep : 0.f;
    }
}
"""


@tkjit.kernel(DROPOUT, entry="dropout", grid=4, block=32)
def dropout(
    x: In[Tensor, "float32", "N"],
    rng: In[Generator, "4 * cdiv(N, 512)"],
    keep: float = 0.5,
    *,
    y: Out[Tensor, "float32", "N"],
) -> Tensor: ...


def test_reproducible_under_manual_seed():
    x = torch.ones(3000)
    torch.manual_seed(7)
    first, second = dropout(x), dropout(x)
    assert not torch.equal(first, second)
    torch.manual_seed(7)
    assert torch.equal(dropout(x), first) and torch.equal(dropout(x), second)
    assert set(first.unique().tolist()) == {0, 2} and 1350 < (first > 0).sum() < 1650
    assert 700 < (dropout(x, 0.25) > 0).sum() < 800


def test_generator_argument():
    x = torch.ones(1000)
    state = torch.get_rng_state()
    ones = [dropout(x, rng=torch.Generator().manual_seed(3)) for _ in range(2)]
    assert torch.equal(*ones) and torch.equal(torch.get_rng_state(), state)
    generator = torch.Generator().manual_seed(3)
    assert torch.equal(dropout(x, rng=generator), ones[0]) and not torch.equal(dropout(x, rng=generator), ones[0])


def test_rejected_call_draws_nothing():
    state = torch.get_rng_state()
    for bad in (torch.ones(2, 2), torch.ones(3, dtype=torch.float64)):
        with pytest.raises(tkjit.TkjitError):
            dropout(bad)
    with pytest.raises(ArgumentError, match=r"dropout: rng is 3 \(int\); expected a torch.Generator"):
        dropout(torch.ones(3), rng=3)
    with pytest.raises(ArgumentError, match="rng: each launch draws new random numbers, so it cannot be prepared"):
        dropout.prepare(torch.ones(3))
    assert torch.equal(torch.get_rng_state(), state)


def test_operator_draws_random_numbers():
    x = torch.ones(1000)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def both(x):
        return dropout(x), dropout(x)

    torch.manual_seed(1)
    first, second = both(x)
    assert not torch.equal(first, second), "the two calls were merged"
    torch.manual_seed(1)
    assert torch.equal(dropout(x), first) and torch.equal(dropout(x), second)
    operator = tkjit.load(dropout).operator
    made = [operator(x, 0.5, rng=torch.Generator().manual_seed(3)) for _ in range(2)]
    assert torch.equal(*made) and torch.equal(made[0], dropout(x, rng=torch.Generator().manual_seed(3)))
    assert torch.Tag.nondeterministic_seeded in operator.default.tags


BITS = """
__global__ void philox(Globals g) {
    tkjit::philox rng{uint64_t(g.seed), uint64_t(g.offset)};
    const uint4 four = rng.bits(g.subsequence, g.i);
    g.y[0] = four.x, g.y[1] = four.y, g.y[2] = four.z, g.y[3] = four.w;
    const float4 u = rng.uniform(g.subsequence, g.i), n = rng.normal(threadIdx.x);
    g.u[0] = u.x, g.u[1] = u.y, g.u[2] = u.z, g.u[3] = u.w;
    g.n(threadIdx.x, 0) = n.x, g.n(threadIdx.x, 1) = n.y, g.n(threadIdx.x, 2) = n.z, g.n(threadIdx.x, 3) = n.w;
}
"""


@tkjit.kernel("#include <tkjit/philox.h>\n" + BITS, entry="philox", grid=1, block=256)
def philox(
    like: In[Tensor, "float32", "N"],
    seed: Scalar[int, "int64_t"],
    offset: Scalar[int, "int64_t"] = 0,
    subsequence: Scalar[int, "int64_t"] = 0,
    i: Scalar[int, "int64_t"] = 0,
    *,
    y: Out[Tensor, "uint32", 4],
    u: Out[Tensor, "float32", 4],
    n: Out[Tensor, "float32", 256, 4],
): ...


def signed(bits):
    return bits - (1 << 64) if bits >> 63 else bits


# published with the algorithm: Random123's kat_vectors, philox4x32 with 10 rounds
@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0), 0, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ((2**64 - 1, 2**64 - 1), 2**64 - 1, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            (0x85A308D3243F6A88, 0x0370734413198A2E),
            0x299F31D0A4093822,
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_known_answers(counter, key, expected):
    draw, subsequence = map(signed, counter)
    found = philox(torch.ones(1), signed(key), subsequence=subsequence, i=draw)
    assert found.y.tolist() == expected
    assert torch.allclose(found.u.double(), found.y.double() / 2**32, atol=1e-6) and (found.u > 0).all()
    assert abs(found.n.mean()) < 0.1 and abs(found.n.std() - 1) < 0.1


def test_an_offset_counts_numbers():
    like = torch.ones(1)
    first = philox(like, 5, 0, 1).y.tolist()
    assert philox(like, 5, 4, 1).y.tolist() != first
    assert philox(like, 5, 1 << 34, 1).y.tolist() != first  # beyond 32 bits of draws
    assert philox(like, 5, 3, 1).y.tolist() == first  # the same draw


@tkjit.kernel("__global__ void f(Globals g) { g.y[0] = g.rng.seed & 1; }", entry="f", grid=1, block=1)
def counted(
    x: In[Tensor, "float32", "N"], rng: In[Generator, "draws"], draws: int = 4, *, y: Out[Tensor, "float32", 1]
) -> Tensor: ...


def test_a_negative_number_of_draws():
    counted(torch.ones(1))
    with pytest.raises(ShapeError, match="counted: rng: a thread would draw -1 numbers"):
        counted(torch.ones(1), -1)


def with_default(x: In[Tensor, "float32", "N"], rng: Generator = 3): ...
def unknown(x: In[Tensor, "float32", "N"], rng: In[Generator, "M"]): ...
def written(x: In[Tensor, "float32", "N"], rng: tkjit.InOut[Generator, "N"]): ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (with_default, "rng: a generator is an input without a default"),
        (unknown, "rng's draws: undefined dim M"),
        (written, "rng: a generator is an input without a default"),
    ],
)
def test_contradictory_specs_are_rejected(function, message):
    with pytest.raises(SpecError) as raised:
        tkjit.kernel("", entry="f", grid=1, block=1)(function)
    assert message in str(raised.value)


def test_torch_generator_as_annotation():
    @tkjit.kernel("", entry="f", grid=1, block=1)
    def f(x: In[Tensor, "float32", "N"], rng: torch.Generator): ...

    (_, field) = f.specs[0].fields
    assert field.draws.text == "4" and field.keyword_only and not field.is_required


def test_default_device_of_torch_does_not_matter():
    torch.manual_seed(2)
    expected = dropout(torch.ones(100))
    x = torch.ones(100)
    torch.manual_seed(2)
    with torch.device("meta"):
        assert torch.equal(dropout(x), expected)
