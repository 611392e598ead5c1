"""``check --overflow`` finds indices and sizes that overflow in huge launches; some kernels model reported bugs."""

from __future__ import annotations

import pytest
import torch
from support.sampling import sample

import tkjit
from tkjit import In, InOut, Out, Strided, Tensor, Zero
from tkjit.check.growth import growths
from tkjit.cli import main
from tkjit.errors import SpecError
from tkjit.spec import variants_of
from tkjit.testing import KernelCheckError, check

pytestmark = pytest.mark.compiles
F32 = "float32"


def of_rows(body: str, **options):
    """Make a kernel with a block for each row of ``x``."""
    source = f"""__global__ void copy(Globals g) {{
        const int cols = g.x.cols();
        {body}
    }}"""

    @tkjit.kernel(source, entry="copy", grid="M", block=64, **options)
    def copy(x: In[Tensor, F32, "M", 96], y: Out[Tensor, F32, "M", 96]) -> Tensor: ...

    return copy


def copies(index: str) -> str:
    return f"for (int c = threadIdx.x; c < cols; c += 64) g.y.raw_ptr[{index}] = g.x.raw_ptr[{index}];"


def products():
    """Modelled on vllm-project/vllm#42862: blockIdx.x is unsigned, so the product wraps around."""
    return of_rows(copies("blockIdx.x * cols + c"))


def signed_products():
    return of_rows(f"const int row = blockIdx.x; {copies('row * cols + c')}")


def wide_products():
    return of_rows(f"const int64_t row = blockIdx.x; {copies('row * cols + c')}")


def limited():
    return of_rows(copies("blockIdx.x * cols + c"), constraints="M * 96 < 2147483648")


def bounds():
    """The bound wraps around as well as the index, and the last block is right by chance."""
    return of_rows(
        "const unsigned row = blockIdx.x, total = g.x.rows() * unsigned(cols);"
        "for (int c = threadIdx.x; c < cols; c += 64)"
        "    if (row * cols + c < total) g.y.raw_ptr[int64_t(row) * cols + c] = 1;"
    )


def hashes():
    """Numbers that wrap around on purpose are no indices."""
    return of_rows(
        "unsigned h = blockIdx.x * 2654435761u + threadIdx.x * 40503u; h ^= h >> 15; h *= 2246822519u;"
        "const int64_t row = blockIdx.x;"
        "for (int c = threadIdx.x; c < cols; c += 64) g.y.raw_ptr[row * cols + c] = g.x.raw_ptr[row * cols + h % cols];"
    )


def divided():
    """Modelled on vllm-project/vllm#45500: the index is divided into a token, a head and a place."""
    source = """__global__ void merge(const float* x, float* y, int tokens, int size) {
        const unsigned heads = 12, index = blockIdx.x * 64 + threadIdx.x, per_head = size / 4;
        const unsigned token = index / per_head / heads, head = index / per_head % heads;
        if (token >= tokens) return;
        const unsigned at = token * heads * size + head * size + index % per_head * 4;
        for (int i = 0; i < 4; ++i) y[at + i] = x[at + i];
    }"""
    sizes = ["d % 4 == 0", "t == T", "d == D"]

    @tkjit.kernel(
        source,
        entry="merge",
        grid="cdiv(T * 12 * (D // 4), 64)",
        block=64,
        args=True,
        fields="x y t d",
        constraints=sizes,
    )
    def merge(x: In[Tensor, F32, "T", 12, "D"], t: int, d: int, y: Out[Tensor, F32, "T", 12, "D"]) -> Tensor: ...

    return merge


def gathers():
    """Modelled on microsoft/onnxruntime#28107: the place in the table is computed in 64 bits and stored in 32."""
    source = """__global__ void gather(Globals g) {
        const int cols = g.table.cols();
        for (int c = threadIdx.x; c < cols; c += 64) {
            const int at = g.index.raw_ptr[blockIdx.x] * cols + c;
            g.y.raw_ptr[int64_t(blockIdx.x) * cols + c] = g.table.raw_ptr[at];
        }
    }"""

    @tkjit.kernel(source, entry="gather", grid="N", block=64)
    def gather(
        table: In[Tensor, F32, "V", 96], index: In[Tensor, "int64", "N"], y: Out[Tensor, F32, "N", 96]
    ) -> Tensor: ...

    return gather


def strides():
    """A stride in 32 bits, as in flashinfer-ai/flashinfer#3391."""
    source = """__global__ void copy(Globals g) {
        const uint32_t stride = g.x.stride(0), row = blockIdx.x;
        for (int c = threadIdx.x; c < g.x.extent(1); c += 64)
            g.y.raw_ptr[int64_t(row) * g.x.extent(1) + c] = g.x.raw_ptr[row * stride + c];
    }"""

    @tkjit.kernel(source, entry="copy", grid="M", block=64)
    def copy(x: In[Strided, F32, "M", 96], y: Out[Tensor, F32, "M", 96]) -> Tensor: ...

    return copy


def steps():
    """The last step of the loop passes the largest int."""
    source = """__global__ void copy(const float* x, float* y, int n) {
        for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) y[i] = x[i];
    }"""

    @tkjit.kernel(
        source, entry="copy", grid="min(cdiv(N, 64), 65536)", block=64, args=True, fields="x y n", constraints="n == N"
    )
    def copy(x: In[Tensor, F32, "N"], n: int, y: Out[Tensor, F32, "N"]) -> Tensor: ...

    return copy


def squares():
    """Both dims of y grow, as those of attention's scores do."""
    source = """__global__ void outer(Globals g) {
        const int n = g.x.numel();
        for (int c = threadIdx.x; c < 64; c += 64) g.y.raw_ptr[blockIdx.x * n + c] = g.x.raw_ptr[c];
    }"""

    @tkjit.kernel(source, entry="outer", grid="N", block=64, constraints="N >= 64")
    def outer(x: In[Tensor, F32, "N"], y: Out[Tensor, F32, "N", "N"]) -> Tensor: ...

    return outer


def filled():
    """An output that starts as zeros is not written by the host."""
    source = """__global__ void copy(Globals g) {
        const unsigned at = blockIdx.x * 64 + threadIdx.x;
        g.y.raw_ptr[at] += g.x.raw_ptr[at];
    }"""

    @tkjit.kernel(source, entry="copy", grid="M", block=64)
    def copy(x: In[Tensor, F32, "M", 64], y: Out[Tensor, F32, "M", 64, Zero]) -> Tensor: ...

    return copy


def right_gathers():
    """Rows of a small table; the number of indices grows, too."""
    source = """__global__ void gather(Globals g) {
        const int64_t row = g.index.raw_ptr[blockIdx.x];
        for (int c = threadIdx.x; c < 96; c += 64)
            g.y.raw_ptr[int64_t(blockIdx.x) * 96 + c] = g.table.raw_ptr[row * 96 + c];
    }"""

    @tkjit.kernel(source, entry="gather", grid="N", block=64)
    def gather(
        index: In[Tensor, "int32", "N"], table: In[Tensor, F32, "V", 96], y: Out[Tensor, F32, "N", 96]
    ) -> Tensor: ...

    return gather


def numbers():
    """Integers that are no indices."""
    source = """__global__ void twice(Globals g) {
        const int64_t at = int64_t(blockIdx.x) * 64 + threadIdx.x;
        g.y.raw_ptr[at] = 2 * g.x.raw_ptr[at];
    }"""

    @tkjit.kernel(source, entry="twice", grid="M", block=64)
    def twice(x: In[Tensor, "int32", "M", 64], y: Out[Tensor, "int32", "M", 64]) -> Tensor: ...

    return twice


FOUND = {
    products: r"an index wraps around: it is x\[\d+\] instead of x\[4\d{9}\]; make it 64 bits wide",
    signed_products: r"\d+ \* \d+ overflows int",
    bounds: r"a block accesses no tensor, but does with M=64: a bound overflows",
    squares: r"an index wraps around: it is y\[",
    filled: r"an index wraps around: it is [xy]\[",
    divided: r"an index wraps around: it is x\[",
    gathers: r"an index wraps around: it is table\[\d+\] instead of table\[4\d{9}\]",
    strides: r"an index wraps around: it is x\[",
    steps: r"x\[-\d+\] is outside of x, which has 2147\d{6} elements",
}


@pytest.mark.parametrize("make", sample(FOUND, "products", "gathers", "bounds", name=lambda make: make.__name__))
def test_overflow_is_found(make):
    with pytest.raises(KernelCheckError, match=FOUND[make]) as caught:
        check(make(), modes=["overflow"])
    assert {one.kind for one in caught.value.report.findings} == {"overflow"}


@pytest.mark.parametrize(
    "make",
    sample([wide_products, limited, hashes, right_gathers, numbers], "wide_products", name=lambda make: make.__name__),
)
def test_right_kernels_are_not_reported(make):
    report = check(make(), modes=["overflow"], strict=True)
    assert report.launches > 0


def growing(kernel) -> dict:
    """Map each dim to its huge extent, and to the elements of the largest tensor."""
    (spec,) = kernel.specs
    found = {}
    for dim, growth in growths(spec, variants_of(spec)[0], {}, 0):
        extent = growth.extent + growth.step * growth.steps if growth is not None else 0
        tensors = growth.sized(extent).arguments.values() if growth is not None else ()
        found[dim] = extent, max((one.numel() for one in tensors), default=0)
    return found


@pytest.mark.parametrize(
    ("constraints", "dims"),
    [([], {"M", "N"}), (["M == N"], set()), (["M % 4096 == 0", "N < 100"], {"M"}), (["M * N < 2147483648"], set())],
)
def test_dims_grow_until_a_tensor_has_over_4_billion_elements(constraints, dims):
    @tkjit.kernel("__global__ void f(Globals g) {}", entry="f", grid=1, block=1, constraints=constraints)
    def f(x: InOut[Tensor, F32, "M", "N"]) -> None: ...

    found = growing(f)
    assert found.keys() == {"M", "N"} and {dim for dim, (_, count) in found.items() if count > 1 << 32} == dims
    assert found["M"][0] % 4096 == 0 or "M % 4096 == 0" not in constraints
    assert max(count for _, count in found.values()) < 1.1 * (1 << 32)


def test_a_dim_that_occurs_twice_grows():
    extent, count = growing(squares())["N"]
    assert count == extent**2 and 1 << 32 < count < 1.3 * (1 << 32)


def test_the_line_of_the_access_is_named(tmp_path, capsys):
    (tmp_path / "copy.cu").write_text(
        "__global__ void copy(Globals g) {\n"
        "    const unsigned at = blockIdx.x * 64 + threadIdx.x;\n"
        "    g.y.raw_ptr[at] = g.x.raw_ptr[at];\n"
        "}\n"
    )
    (tmp_path / "copy.py").write_text(
        "import tkjit\nfrom tkjit import In, InOut, Out, Tensor\n\n"
        '@tkjit.kernel("copy.cu", entry="copy", grid="M", block=64)\n'
        'def copy(x: In[Tensor, "float32", "M", 64], y: Out[Tensor, "float32", "M", 64]) -> Tensor: ...\n'
    )
    assert main(["check", "--overflow", str(tmp_path / "copy.py")]) == 1
    printed = capsys.readouterr().out
    assert f"at {tmp_path / 'copy.cu'}:3" in printed and "found with copy for cpu-x86-64" in printed
    assert "read by thread (0, 0, 0) of block (" in printed


def test_a_grid_that_cannot_be_launched_is_a_warning():
    source = """__global__ void copy(Globals g) {
        const int64_t row = blockIdx.y;
        g.y.raw_ptr[row * 64 + threadIdx.x] = g.x.raw_ptr[row * 64 + threadIdx.x];
    }"""

    @tkjit.kernel(source, entry="copy", grid=(1, "M"), block=64)
    def copy(x: In[Tensor, F32, "M", 64], y: Out[Tensor, F32, "M", 64]) -> Tensor: ...

    with pytest.warns(match=r"cannot be launched: grid y is \d+; the limit is 65535; exclude them with constraints="):
        assert check(copy, modes=["overflow"]).findings == []


def test_blocks_that_wait_for_each_other_cannot_run_alone():
    source = "__global__ void f(Globals g) { g.y.raw_ptr[blockIdx.x] = 0; }"

    @tkjit.kernel(source, entry="f", grid="N", block=1, cooperative=True)
    def f(x: In[Tensor, F32, "N"], y: Out[Tensor, F32, "N"]) -> Tensor: ...

    with pytest.raises(SpecError, match="f is cooperative, so its blocks wait for each other"):
        check(f, modes=["overflow"])


def test_overflow_is_not_a_default_mode():
    assert check(signed_products(), torch.ones(2, 96)).findings == []
