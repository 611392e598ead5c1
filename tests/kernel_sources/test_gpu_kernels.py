"""The bundled kernels on a GPU: accuracy against float64, devices, streams and errors. CI has no GPU and skips them."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

import tkjit
from tkjit import ArgumentError, CacheError, LaunchError

pytestmark = pytest.mark.gpu
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
# half a unit in the last place
ROUNDING = {
    torch.float32: 2.0**-24,
    torch.bfloat16: 2.0**-8,
    torch.float16: 2.0**-11,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        (1, 1, 1),
        (128, 128, 128),
        (130, 257, 70),
        (64, 32, 0),
        (1000, 999, 1001),
        (16, 4096, 8192),  # several blocks share a tile
        (100, 300, 5000),
        (5000, 2000, 64),  # each block computes several tiles
    ],
)
def test_gemm(gpu, dtype, m, n, k):
    a = torch.randn(m, k, dtype=dtype, device=gpu)
    b = torch.randn(k, n, dtype=dtype, device=gpu)
    c = tkjit.load("gemm")(a, b)
    exact = a.double() @ b.double()
    # one rounding of the result, plus the error of the sum in float32
    bound = ROUNDING[dtype] * exact.abs() + k * 2.0**-23 * (a.double().abs() @ b.double().abs()) + 1e-30
    assert c.dtype == dtype and c.device == a.device
    assert bool(((c.double() - exact).abs() <= bound).all())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("shape", [(1000, 999, 1001), (16, 4096, 8192), (2000, 512, 256)])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_matmul(gpu, dtype, transposed, shape, batch):
    m, n, k = shape
    sizes = [
        (*batch, *(one[::-1] if turned else one)) for one, turned in zip([(m, k), (k, n)], transposed, strict=True)
    ]
    a, b = (torch.randn(size, device=gpu).to(dtype) for size in sizes)
    a, b = (one.mT if turned else one for one, turned in zip((a, b), transposed, strict=True))
    c = torch.randn(n, device=gpu).to(dtype).expand(*batch, m, n)
    exact = 0.5 * a.double() @ b.double() + 2 * c.double()
    summed = 0.5 * a.double().abs() @ b.double().abs() + 2 * c.double().abs()
    d = tkjit.load("matmul")(a, b, c, 0.5, 2.0)
    assert bool(((d.double() - exact).abs() <= ROUNDING[dtype] * exact.abs() + k * 2.0**-23 * summed).all())


@pytest.mark.parametrize(
    "case",
    [
        (torch.zeros(300, 520)[8:208, 16:272], torch.zeros(256, 64)),  # a slice of rows
        (torch.zeros(520, 300).T[8:208, 8:264], torch.zeros(256, 64)),  # a slice of columns
        (torch.zeros(3, 128, 256), torch.zeros(256, 64).expand(3, 256, 64)),  # a repeated matrix
        (torch.zeros(128, 3, 256).transpose(0, 1), torch.zeros(256, 3, 64).transpose(0, 1)),  # a permuted batch
        (torch.zeros(4096, 4096), torch.zeros(4096, 1)),
        (torch.zeros(1, 4096), torch.zeros(4096, 4096)),
        (torch.zeros(4096, 1), torch.zeros(1, 4096)),
    ],
    ids=lambda case: f"{tuple(case[0].shape)} {case[0].stride()} {case[1].stride()}",
)
def test_matmul_of_unusual_strides(gpu, case):
    a, b = (torch.empty_strided(one.shape, one.stride(), device=gpu, dtype=torch.bfloat16) for one in case)
    a.normal_()
    if 0 in b.stride():
        b = torch.randn(b.shape[1:], device=gpu, dtype=torch.bfloat16).expand(b.shape)
    else:
        b.normal_()
    exact = a.double() @ b.double()
    bound = ROUNDING[torch.bfloat16] * exact.abs() + a.shape[-1] * 2.0**-23 * (a.double().abs() @ b.double().abs())
    assert bool(((tkjit.load("matmul")(a, b).double() - exact).abs() <= bound).all())


@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("ends", [[100, 100, 101, 1000, 2048], list(range(5, 2049, 30))])
def test_grouped_matmul(gpu, ends, by_columns):
    a, b = torch.randn(2048, 512, device=gpu).bfloat16(), torch.randn(len(ends), 512, 384, device=gpu).bfloat16()
    b = b.mT.contiguous().mT if by_columns else b
    c = tkjit.load("grouped_matmul")(a, b, torch.tensor(ends, dtype=torch.int32, device=gpu))
    for first, end, matrix in zip([0, *ends], ends, b, strict=False):
        exact = a[first:end].double() @ matrix.double()
        assert bool(((c[first:end].double() - exact).abs() <= ROUNDING[torch.bfloat16] * exact.abs() + 1e-3).all())
    assert not c[ends[-1] :].any()


@pytest.mark.parametrize("shape", [(1000, 999, 1001), (16, 4096, 8192), (2000, 512, 256)])
def test_scaled_matmul(gpu, shape):
    m, n, k = shape
    a, b = torch.randn(m, k, device=gpu).to(torch.float8_e4m3fn), torch.randn(n, k, device=gpu).to(torch.float8_e4m3fn)
    rows, columns = torch.arange(n, device=gpu) // 128, torch.arange(k, device=gpu) // 128
    kernel = tkjit.load("scaled_matmul")
    blocks = (torch.rand(m, -(-k // 128), device=gpu) + 0.5, torch.rand(-(-n // 128), -(-k // 128), device=gpu) + 0.5)
    whole = (torch.rand(m, device=gpu) + 0.5, torch.rand(n, device=gpu) + 0.5)
    wide = {
        blocks: (a.double() * blocks[0][:, columns], b.double() * blocks[1][rows][:, columns]),
        whole: (a.double() * whole[0][:, None], b.double() * whole[1][:, None]),
    }
    for scales, (wide_a, wide_b) in wide.items():
        exact = wide_a @ wide_b.T
        # the tensor cores add up products of 8-bit floats with 13 bits
        bound = 2.0**-8 * exact.abs() + 2.0**-12 * (wide_a.abs() @ wide_b.abs().T)
        assert bool(((kernel(a, b, *scales).double() - exact).abs() <= bound).all())


@pytest.mark.parametrize(("of_a", "of_b"), [("e5m2", "e4m3fn"), ("e4m3fn", "e5m2"), ("e5m2", "e5m2")])
@pytest.mark.parametrize("out_dtype", [torch.float32, torch.float16])
def test_scaled_matmul_of_other_types(gpu, of_a, of_b, out_dtype):
    m, n, k = 1000, 512, 1024
    a = torch.randn(m, k, device=gpu).to(getattr(torch, f"float8_{of_a}"))
    b = torch.randn(n, k, device=gpu).to(getattr(torch, f"float8_{of_b}"))
    one, bias = torch.ones(1, device=gpu), torch.randn(n, device=gpu).to(out_dtype)
    c = tkjit.load("scaled_matmul")(a, b, one, one, bias, out_dtype=out_dtype)
    exact = a.double() @ b.double().T + bias.double()
    bound = torch.finfo(out_dtype).eps * exact.abs() + 2.0**-12 * (a.double().abs() @ b.double().abs().T)
    assert c.dtype == out_dtype and bool(((c.double() - exact).abs() <= bound).all())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "n", "k"), [(7, 30, 20), (1000, 999, 1001), (16, 4096, 8192), (5000, 2000, 64)])
def test_linear(gpu, dtype, m, n, k):
    x, weight, bias = (torch.randn(shape, device=gpu).to(dtype) for shape in ((m, k), (n, k), (n,)))
    weight /= k**0.5
    exact = torch.nn.functional.gelu(torch.nn.functional.linear(x.double(), weight.double(), bias.double()))
    y = tkjit.load("linear")(x, weight, bias, activation="gelu")
    assert bool(((y.double() - exact).abs() <= 1.01 * ROUNDING[dtype] * exact.abs() + 5e-5).all())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "n", "k"), [(7, 30, 20), (1000, 999, 1001), (16, 4096, 8192), (5000, 2000, 64)])
def test_gated_linear(gpu, dtype, m, n, k):
    shapes = ((m, k), (n, k), (n, k), (n,), (n,))
    x, gate, up, gate_bias, up_bias = (torch.randn(shape, device=gpu).to(dtype) for shape in shapes)
    gate, up = gate / k**0.5, up / k**0.5
    F = torch.nn.functional
    exact = F.silu(F.linear(x.double(), gate.double(), gate_bias.double()))
    exact = exact * F.linear(x.double(), up.double(), up_bias.double())
    y = tkjit.load("gated_linear")(x, gate, up, gate_bias, up_bias)
    assert bool(((y.double() - exact).abs() <= 1.01 * ROUNDING[dtype] * exact.abs() + 5e-5).all())


@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
@pytest.mark.parametrize(("m", "n", "k"), [(7, 30, 20), (1000, 999, 1001), (16, 4096, 8192), (2048, 512, 256)])
def test_tf32(gpu, m, n, k, transposed):
    a = torch.randn(k, m, device=gpu).T if "a" in transposed else torch.randn(m, k, device=gpu)
    b = torch.randn(n, k, device=gpu).T if "b" in transposed else torch.randn(k, n, device=gpu)
    c = tkjit.load("matmul")(a, b, precision="tf32")
    exact, summed = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    # each factor is rounded by at most half of 2^-10, and the tensor cores add up with about 23 bits
    assert bool(((c.double() - exact).abs() <= (2.0**-10 + k * 2.0**-22) * summed).all())


@pytest.mark.parametrize("transposed", [False, True])
def test_factors_of_tf32_are_rounded_and_not_truncated(gpu, transposed):
    a, b = torch.rand(512, 1024, device=gpu), torch.rand(256, 1024, device=gpu).T
    c = tkjit.load("matmul")(a, b.contiguous() if transposed else b, precision="tf32")
    exact = a.double() @ b.double()
    assert abs(float((c.double() / exact - 1).mean())) < 2.0**-13


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1,), (33, 1000), (2, 3, 5, 257)])
def test_softmax(gpu, dtype, shape):
    x = torch.randn(shape, dtype=dtype, device=gpu) * 5
    y = tkjit.load("softmax")(x)
    exact = x.double().softmax(-1)
    assert bool(((y.double() - exact).abs() <= (ROUNDING[dtype] + 1e-5) * exact + 1e-7).all())


@pytest.mark.parametrize("dtype", DTYPES)
def test_axpy_in_place(gpu, dtype):
    x, y = (torch.randn(100_003, dtype=dtype, device=gpu) for _ in range(2))
    exact = 0.5 * x.double() + y.double()
    assert tkjit.load("axpy")(x, y, alpha=0.5) is y
    assert bool(((y.double() - exact).abs() <= 2 * ROUNDING[dtype] * exact.abs() + 1e-3 * ROUNDING[dtype]).all())


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_simulator_gives_the_same_product(gpu, dtype):
    a, b = torch.randint(-8, 8, (2, 96, 96)).to(dtype)  # small integers: every sum is exact
    on_cpu = tkjit.load("gemm")(a, b)
    assert torch.equal(tkjit.load("gemm")(a.to(gpu), b.to(gpu)).cpu(), on_cpu)


def test_the_current_stream_is_used_and_can_be_overridden(gpu):
    axpy = tkjit.load("axpy")
    x, y = torch.randn(1 << 20, device=gpu), torch.zeros(1 << 20, device=gpu)
    axpy(x, y)  # builds the kernel before the stream is delayed
    side = torch.cuda.Stream(gpu)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
        axpy(x, y)
        assert not side.query(), "the call must be queued in the stream without synchronising"
    axpy(x, y, stream=side)
    axpy(x, y, stream=side.cuda_stream)
    torch.cuda.synchronize()
    assert torch.allclose(y, 4 * x, rtol=1e-6)


def test_captured_launch_replays(gpu):
    axpy = tkjit.load("axpy")
    x, y = torch.randn(1000, device=gpu), torch.zeros(1000, device=gpu)
    axpy(x, torch.zeros_like(x))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        axpy(x, y)
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert torch.allclose(y, 3 * x, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")
@pytest.mark.parametrize("is_known", [False, True], ids=["kernel", "variant"])
def test_cache_miss_during_graph_capture_names_the_command_and_a_warm_call_helps(gpu, is_known, tmp_path):
    source = f"template <class T> __global__ void add(Globals g) {{ g.x[threadIdx.x] += T(1); }}  // {tmp_path}"

    @tkjit.kernel(source, entry="add<T>", grid=1, block="N", variants={"T": ("float32", "float16")})
    def captured(x: tkjit.InOut[tkjit.Tensor, "T", "N"]) -> tkjit.Tensor: ...

    add = tkjit.load(captured)
    if is_known:  # build the glue and another variant
        add(torch.zeros(8, device=gpu))
    x = torch.zeros(8, device=gpu, dtype=torch.float16)
    torch.cuda.synchronize()
    command = r"build it ahead of time: python -m tkjit warmup --record .*, or call it once before the capture"
    with pytest.raises(CacheError, match=command), torch.cuda.graph(torch.cuda.CUDAGraph()):
        add(x)
    assert x.sum().item() == 0
    add(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add(x)
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert x.tolist() == [4.0] * 8


def test_mixed_devices_are_rejected(gpu):
    with pytest.raises(ArgumentError, match=r"axpy: y is \(8,\) float32 on cpu; expected cuda:0, where x is"):
        tkjit.load("axpy")(torch.randn(8, device=gpu), torch.randn(8))


def test_failed_launch_raises_and_the_next_one_works(gpu):
    @tkjit.kernel("__global__ void many(float* x) {}", entry="many", args=True, grid="1, N", block=1)
    def many(x: tkjit.InOut[tkjit.Tensor, "float32", "N"]) -> None: ...

    with pytest.raises(LaunchError, match="many: grid y is 70000; the limit is 65535"):
        many(torch.randn(70_000, device=gpu))
    many(torch.randn(7, device=gpu))


@pytest.mark.parametrize("way", ["kernel", "host"])
def test_foreign_program_runs(gpu, way):
    foreign = runpy.run_path(str(Path(__file__).parents[1] / "support/kernels/foreign.py"))
    x = torch.randn(5, 300, device=gpu)
    sizes = {"kernel": (300,), "host": (5, 300)}[way]
    assert torch.equal(foreign[way](x, *sizes), x.flip(1))


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("m", [1, 16, 50])
@pytest.mark.parametrize(("n", "k"), [(4096, 14336), (1001, 256)])
def test_quant_matmul(gpu, dtype, m, n, k):
    x, scales = torch.randn(m, k, device=gpu).to(dtype), (torch.rand(n, k // 128, device=gpu) / k**0.5).to(dtype)
    kernel = tkjit.load("quant_matmul")
    scratch = dict.fromkeys(("sums", "finished", "y"))
    weight, zeros = (torch.randint(256, (n, size), device=gpu).byte() for size in (k // 2, k // 128))
    weights = {
        "four": (weight, scales, zeros % 16),
        "eight": (torch.randn(n, k, device=gpu).to(torch.float8_e4m3fn), scales),
    }
    for spec, arguments in zip(kernel.specs, weights.values(), strict=True):
        exact = spec.reference(x.float(), *arguments, **scratch)
        torch.testing.assert_close(kernel(x, *arguments).float(), exact, rtol=0.01, atol=0.01)
