"""The first line of each error explains it in the terms of the spec, with a remedy: docs/explanation/trials.md."""

import re

import pytest
import torch

import tkjit
from tkjit import In, InOut, Out, Tensor

pytestmark = pytest.mark.compiles
SCALE = "__global__ void scale(const __grid_constant__ Globals g) {{ {} }}"
RIGHT = SCALE.format("if (threadIdx.x < g.x.numel()) g.y[threadIdx.x] = g.a * g.x[threadIdx.x];")
SAXPY = "__global__ void saxpy(int n, float a, const float* x, float* y) {}"


def scale(source: str = RIGHT, dtype: str = "float32", **options) -> tkjit.Kernel:
    @tkjit.kernel(source, **{"entry": "scale", "grid": 1, "block": 128, **options})
    def scale(x: In[Tensor, dtype, "N"], a: float = 2.0, *, y: Out[Tensor, dtype, "N"]) -> Tensor: ...

    return scale


def scale_of_one(*dims: str) -> tkjit.Kernel:
    source = SCALE.format("g.y.raw_ptr[threadIdx.x] = 1;")

    @tkjit.kernel(source, entry="scale", grid=1, block=128)
    def scale(x: In[(Tensor, "float32", *dims)], a: float = 2.0, *, y: Out[Tensor, "float32"]) -> Tensor: ...

    return scale


def transposed(body: str) -> torch.Tensor:
    @tkjit.kernel(
        f"__global__ void copy(Globals g) {{ const int row = threadIdx.y, col = threadIdx.x; {body} }}",
        entry="copy",
        grid=1,
        block=(8, 8),
    )
    def copy(x: In[Tensor, "float32", "M", "N"], y: Out[Tensor, "float32", "M", "N"]) -> Tensor: ...

    return copy(torch.ones(3, 5))


def saxpy(source: str = SAXPY, **options) -> tkjit.Kernel:
    @tkjit.kernel(source, **{"entry": "saxpy", "grid": 1, "block": 128, "args": True, **options})
    def saxpy(y: InOut[Tensor, "float32", "n"], x: In[Tensor, "float32", "n"], a: float, n: int) -> None: ...

    return saxpy


def add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    @tkjit.kernel("__global__ void add(Globals g) {}", entry="add", grid=1, block=1)
    def add(a: In[Tensor, "float32", "..."], b: In[Tensor, "float32", "..."], y: Out[Tensor, "float32", "..."]): ...

    return add(a, b)


ONE = torch.ones(100)
PLAIN = (torch.ones(4), torch.ones(4), 2.0, 4)
MISTAKES = {
    "wrong entry": (lambda: scale(entry="scal")(ONE), "has no __global__ function scal; it has scale"),
    "entry a word of C++": (lambda: scale(entry="class"), r"class is a C\+\+ keyword, .*; rename the kernel"),
    "no <T>": (lambda: scale("template <typename T> " + RIGHT)(ONE), 'entry="scale<T>"'),
    "no variants": (lambda: scale(dtype="T"), 'a template parameter is a variant: variants={"T":'),
    "<T> without variants": (lambda: scale("template <typename T> " + RIGHT, entry="scale<T>")(ONE), 'variants={"T": '),
    "plain pointers": (lambda: saxpy(args=False)(*PLAIN), "takes plain arguments instead of a struct; set args=True"),
    "args=True and Globals": (lambda: scale(args=True)(ONE), "leave args=True out"),
    "another order": (lambda: saxpy()(*PLAIN), 'fields="n a x y" is the kernel\'s order'),
    "unknown dim": (lambda: scale(grid="cdiv(M, 256)"), "undefined dim M .*; defined are N"),
    "torch.float32": (lambda: scale(dtype=torch.float32), '"float32" instead of torch.float32'),
    "fp32": (lambda: scale(dtype="fp32"), 'did you mean "float32"'),
    "function as grid": (lambda: scale(grid=lambda n: n), r'it is a function; expected .* such as "cdiv\(N, 256\)"'),
    "x.shape[0]": (lambda: scale(grid="x.shape[0]"), "name the dim, .*, and use N"),
    "N / 256": (lambda: scale(grid="N / 256"), r"use // \(rounds down\) or cdiv \(rounds up\)"),
    "no blocks": (lambda: scale(grid="N // 256")(ONE), "grid is 0 blocks, N // 256; .* cdiv rounds up"),
    "smem=": (lambda: scale(smem=3), "did you mean shared_memory"),
    "no grid": (lambda: scale(grid=None), 'grid is missing, as in grid="cdiv'),
    "positional output": (lambda: scale()(ONE, 2.0, ONE), "by name it takes y=, out=, stream="),
    "unknown keyword": (lambda: scale()(ONE, alpha=1), "unknown argument alpha; it takes x, a, y, out, stream"),
    "not contiguous": (
        lambda: scale()(torch.ones(8)[::2]),
        r"expected contiguous; pass x\.contiguous\(\), which copies it",
    ),
    "wrong dtype": (lambda: scale()(ONE.double()), r"expected \(N,\) float32; pass x\.to\(torch\.float32\)"),
    "NumPy's dtype": (lambda: scale()(ONE.double().numpy()), r'float32; pass x\.astype\("float32"\)'),
    "wrong shape": (
        lambda: scale()(torch.ones(3, 4)),
        r"x is \(3, 4\) float32 on cpu; expected \(N,\) float32; x has 2 dimensions, .*; pass x\.flatten\(\), or write",
    ),
    "another size": (
        lambda: saxpy()(torch.ones(5), torch.ones(4), 2.0, 4),
        r"y is \(5,\) float32 on cpu; expected \(n=4,\) float32; dim 0 is 5, but n=4",
    ),
    "out= of another shape": (
        lambda: scale()(ONE, out=torch.ones(3)),
        r"expected \(N=100,\) float32; dim 0 is 3, but N=100 from x; leave y out to have it made",
    ),
    "a list for a tensor": (
        lambda: scale()([1.0, 2.0]),
        r"x is .* \(list\); expected a torch.Tensor; torch.tensor\(x\) makes one",
    ),
    "no argument": (lambda: scale()(), "the argument x is missing; it takes x, a, y, out, stream"),
    "misspelt keyword": (lambda: scale()(ONE, strem=1), r"unknown argument strem; did you mean stream\? it takes x, a"),
    "requires_grad": (lambda: scale()(torch.ones(4, requires_grad=True)), "no_grad.*detach.*backward="),
    "g.xx": (lambda: scale(SCALE.format("g.y[0] = g.xx[0];"))(ONE), "no field xx; it has x, a, y; did you mean g.x"),
    "n": (
        lambda: scale(SCALE.format("if (threadIdx.x < n) g.y[0] = 1;"))(ONE),
        r"n is not declared; .* is an extent of its tensor; a kernel can use g\.x, .* extents such as g\.x\.numel",
    ),
    "g.x.size(0)": (
        lambda: scale(SCALE.format("g.y[0] = g.x.size(0);"))(ONE),
        r"a global layout has no size; it has rows\(\) and cols\(\)",
    ),
    "no bytes of shared memory": (
        lambda: scale(SCALE.format("extern __shared__ float tile[]; g.y[0] = tile[0];"))(ONE),
        "tile is dynamic shared memory, of which the launch has 0 bytes; set its size in bytes",
    ),
    "an In is written": (
        lambda: scale(SCALE.format("g.x[0] = 1;"))(ONE),
        "writes to .x, but x is In; declare it InOut",
    ),
    "no comparison with the size": (
        lambda: scale(SCALE.format("g.y[threadIdx.x] = 1;"))(ONE),
        r"y\[100\] is out of bounds: y has 100 elements; compare the index with numel\(\) first, .*inline.cu:1",
    ),
    "the same through a pointer": (
        lambda: scale(SCALE.format("float* y = g.y.raw_ptr; y[threadIdx.x] = 1;"))(ONE),
        "it wrote to element 100 of y, which has 100: compare the index with the size before writing, as in if ",
    ),
    "row and column swapped": (
        lambda: transposed("if (row < g.x.rows() && col < g.x.cols()) g.y(row, col) = g.x(col, row);"),
        r"x: row 3 is out of bounds: the extent is 3; .*; or are the two swapped",
    ),
    "a missing semicolon": (lambda: scale(SCALE.format("g.y[0] = 1"))(ONE), "a semicolon is missing"),
    "a shuffle of old": (
        lambda: scale(SCALE.format("g.y[0] = __shfl_down(g.x[0], 1);"))(ONE),
        r"__shfl_down has become __shfl_down_sync, .* __shfl_down_sync\(0xffffffff, ...\)",
    ),
    "an array as long as the block": (
        lambda: scale(SCALE.format("__shared__ float red[blockDim.x]; red[0] = 1; g.y[0] = red[0];"))(ONE),
        r"extern __shared__ float tile\[\]; and shared_memory=",
    ),
    "an array of run-time size": (
        lambda: scale(SCALE.format("float buf[g.x.numel()]; buf[0] = 1; g.y[0] = buf[0];"))(ONE),
        r"inline.cu:1: buf\[g.x.numel\(\)\]: the size of an array must be constant in CUDA: .* a Scratch tensor",
    ),
    "blockIdx without .x": (
        lambda: scale(SCALE.format("g.y[blockIdx * blockDim.x] = 1;"))(ONE),
        r"have three members: blockIdx\.x \* blockDim\.x",
    ),
    "a kernel returns": (
        lambda: scale(SCALE.format("return g.x[0];"))(ONE),
        "a kernel writes to the elements of an output",
    ),
    "g.x->data": (
        lambda: scale(SCALE.format("g.y[0] = g.x->data[0];"))(ONE),
        "a layout is not a pointer; .* g.x.raw_ptr",
    ),
    "alpha for g.a": (
        lambda: scale(SCALE.format("g.y[0] = alpha * g.x[0];"))(ONE),
        r"alpha is not declared; a kernel can use g\.x, g\.a, g\.y",
    ),
    "a launch in a host function": (
        lambda: scale(RIGHT + "\nvoid run() { float* d = nullptr; scale<<<4, 256>>>(d, 1000); }")(ONE),
        "the source launches the kernel itself, in a host function; remove that",
    ),
    "grid= in a call": (lambda: scale()(ONE, grid=4), "scale: grid is not an argument of a call: the spec sets it"),
    "computed= in the grid": (
        lambda: scale(computed={"count": "x.numel"}, grid="cdiv(count, 256)"),
        "count is computed for the kernel: write x.numel here as well",
    ),
    "scale[grid](x)": (lambda: scale()[4, 256](ONE), r"the spec sets the grid and block; call scale\(...\)"),
    "T without a tensor": (lambda: scale(variants={"T": ("float32",)}), 'add one: x: In\\[Tensor, "T", "N"\\]'),
    "a vector for a matrix": (
        lambda: add(torch.ones(10, 4), torch.ones(4)),
        r"b is .*; expected \(10, 4\) float32; the dims of .*; pass b\.expand\(10, 4\)\.contiguous\(\)",
    ),
    "no dims": (lambda: scale_of_one()(ONE), 'its spec lists no dims, which means one number; "..." is any shape'),
    "an output without dims": (
        lambda: scale_of_one("1")(ONE[:1]),
        "element 1 of y, which has 1: its spec lists no dims, which means one number",
    ),
    "g.N": (lambda: scale(SCALE.format("g.y[0] = g.N;"))(ONE), r"N is a dim, not a field; .* g\.x\.cols\(\)"),
    "x[i]": (lambda: scale(SCALE.format("g.y[0] = x[0];"))(ONE), "x is a field of the struct: g.x"),
    "g.x[i, j]": (lambda: scale(SCALE.format("g.y[0, 1] = 1;"))(ONE), r"\.y\(0, 1\) has two"),
    "g.x[i][j]": (lambda: scale(SCALE.format("g.y[0][1] = 1;"))(ONE), r"\.y\(0, 1\) has two"),
    "Globals&": (lambda: scale("__global__ void scale(const Globals& g) {}")(ONE), "takes it by value: const __grid_"),
    "no __global__": (lambda: scale("void scale(Globals g) {}")(ONE), "is not a kernel; write __global__ before it"),
    "two kernels": (
        lambda: scale(RIGHT + "\n__global__ void other(const Globals g) { g.w[0] = 1; }")(ONE),
        "Each kernel has its own Globals, but the source also has other; put each kernel in its own file",
    ),
    "block of 2048": (
        lambda: scale(block=2048)(ONE),
        "block is 2048 threads; the limit is 1024: take more blocks instead, block=1024 and a grid of cdiv",
    ),
    "misspelled name": (lambda: tkjit.load("gem"), "did you mean gemm"),
    "a tile of no parameter": (
        lambda: scale(variants={"TILE": (4, 8)}, grid="TILE"),
        "add the parameter TILE: int = 4",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_first_line_explains_the_mistake(session_cache, mistake):
    make, expected = MISTAKES[mistake]
    with pytest.raises(tkjit.TkjitError) as caught:
        make()
    first = str(caught.value).split("\n")[0]
    assert re.search(expected, first), first


def test_the_traceback_starts_at_the_callers_line(session_cache):
    for make in (lambda: scale(entry="scal")(ONE), lambda: scale(dtype="fp32")):
        with pytest.raises(tkjit.TkjitError) as caught:
            make()
        inner = [
            entry
            for entry in caught.traceback
            if "tkjit/kernel_objects" in str(entry.path) or "tests" not in str(entry.path)
        ]
        assert 0 < len(inner) <= 2


def test_the_kernel_without_a_mistake_works(session_cache):
    assert torch.equal(scale()(ONE), 2 * ONE)


def test_an_integer_variant_can_be_an_extent(session_cache):
    source = "template <int K> __global__ void first(Globals g) { if (threadIdx.x < K) g.y[threadIdx.x] = g.x[K]; }"

    @tkjit.kernel(source, entry="first<K>", grid=1, block=64, variants={"K": (8, 16)})
    def first(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "K"], K: int = 8) -> Tensor: ...

    assert torch.equal(first(ONE), ONE[:8]) and first(ONE, K=16).shape == (16,)
