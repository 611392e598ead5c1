"""Findings of each checker mode: kinds, source lines, and accepted code."""

from __future__ import annotations

import re
import subprocess

import pytest
import torch
from support.checked import CLEAN, F32, RACY, found, reverse

import tkjit
from tkjit import In, Out, Tensor
from tkjit.check.cases import cases_of
from tkjit.check.child import ORDERS, run
from tkjit.check.plan import RACE, CheckerPlan
from tkjit.config import Settings
from tkjit.loader import loader_for
from tkjit.spec import Variant
from tkjit.testing import KernelCheckError, check

pytestmark = pytest.mark.compiles

# every thread that a program starts sleeps before it does anything, as on a machine with more to do than it can
LATE = """
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

using Routine = void* (*)(void*);
struct Start { Routine routine; void* argument; };

static void* late(void* given) {
    const Start start = *static_cast<Start*>(given);
    delete static_cast<Start*>(given);
    const timespec nap{0, 300'000'000};
    nanosleep(&nap, nullptr);
    return start.routine(start.argument);
}

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* with, Routine routine, void* argument) noexcept {
    static const auto real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
    return real(thread, with, late, new Start{routine, argument});
}
"""


def test_a_clean_kernel():
    report = check(reverse(CLEAN))
    assert report.findings == [] and report.launches == 2 + len(ORDERS)


def test_a_race_names_both_sides():
    (race,) = found(reverse(RACY), modes=["race"])
    assert race.kind == "race" and race.text == f"nothing orders two accesses to {race.text.split('to ')[1]}"
    assert re.search(r"tile \+ \d+ bytes in shared memory", race.text)
    sides = {(side.access, side.line) for side in (race.here, race.there)}
    assert sides == {("write", 3), ("read", 4)} and race.here.file == "inline.cu"
    written, read = sorted((race.here, race.there), key=lambda side: side.line)
    assert written.thread[0] == 127 - read.thread[0] and written.block == (0, 0, 0)


def test_a_mode_finds_what_is_its_own():
    assert {one.kind for one in found(reverse(RACY), modes=["init"])} == {"uninitialized"}
    assert {one.kind for one in found(reverse(RACY), modes=["order"])} <= {"order", "result"}
    assert check(reverse(RACY), modes=["memory"]).findings == []


def test_a_wrong_result():
    wrong = reverse(CLEAN.replace("127 - threadIdx.x", "threadIdx.x"))
    (result,) = found(wrong, modes=["order"])
    assert result.kind == "result" and re.match(
        r"y\[\d+\] is .*, and .* by the reference, the function\'s body; \d+ elements differ", result.text
    )


def test_a_result_that_depends_on_the_order():
    source = "__global__ void reverse(Globals g) { g.y[threadIdx.x] = g.x[127 - threadIdx.x]; g.y[0] = threadIdx.x; }"
    kinds = {one.kind: one.text for one in found(reverse(source), modes=["order"])}
    assert re.search(
        r"depends on the order of the threads: y\[0\] is .* in forward order, .* in \w+ order", kinds["order"]
    )


@pytest.mark.parametrize(
    "statement, text",
    [
        ("g.y[threadIdx.x + 1] = 0;", "4 bytes right behind y, which has 512 bytes"),
        ("g.y[int(threadIdx.x) - 1] = 0;", "4 bytes, 4 bytes before y"),
        ("g.y[threadIdx.x + 100000] = 0;", "bytes behind y, which has 512 bytes"),
        ("tile[threadIdx.x + 1] = 0;", "behind tile, which has 512 bytes"),
        ("float own[4] = {}; for (int i = 0; i < int(threadIdx.x); ++i) own[i % 5] += i; g.y[0] = own[1];", "own"),
        (
            "TKJIT_DYNAMIC_SHARED(float, rest); rest[threadIdx.x] = 1; g.y[0] = rest[5];",
            "an access that the kernel may not use",
        ),
    ],
    ids=["behind", "before", "far", "shared", "local", "dynamic"],
)
def test_accesses_out_of_bounds(statement, text):
    source = "#include <tkjit/shared_memory.cuh>\n" + CLEAN.replace("    g.y", f"    {statement}\n    g.y")
    memory = [one for one in found(reverse(source), modes=["memory"]) if one.kind == "memory"]
    assert memory and memory[0].here.line == 6 and memory[0].here.file == "inline.cu"
    assert text in memory[0].text or text == "an access that the kernel may not use"


def test_memory_behind_a_shared_array_of_a_template():
    source = """template <class T> __device__ void fill() {
    __shared__ T tile[8];
    __shared__ T next[8];
    tile[threadIdx.x % 9] = 1;
    next[threadIdx.x % 8] = tile[0];
}
__global__ void reverse(Globals g) {
    fill<float>();
    g.y[threadIdx.x] = g.x[127 - threadIdx.x];
}"""
    (memory,) = found(reverse(source), modes=["memory"])
    assert memory.here.line == 4 and "right behind tile, which has 32 bytes" in memory.text


def test_a_vector_that_is_not_aligned():
    source = CLEAN.replace(
        "    g.y", "    if (threadIdx.x < 8) g.y[0] = reinterpret_cast<const float4*>(&g.x[1])[threadIdx.x].x;\n    g.y"
    )
    (memory,) = found(reverse(source), modes=["memory"])
    assert memory.here.line == 5 and memory.text.startswith(
        "x + 4 bytes is not at a multiple of 16 bytes, as this access needs; access single"
    )


def test_an_output_that_is_not_written():
    (finding,) = found(reverse(CLEAN.replace("    g.y", "    if (threadIdx.x != 7) g.y")), modes=["init"])
    said = "1 element of the output y is not written, the first at index 7: the grid or the index leaves them out"
    assert finding.text.startswith(said)


def ones(index: str):
    @tkjit.kernel(f"__global__ void ones(Globals g) {{ g.y[{index}] = 1; }}", entry="ones", grid="N // 4", block=4)
    def ones(x: In[Tensor, F32, "N"], y: Out[Tensor, F32, "N"]) -> Tensor: ...

    return ones


def test_a_grid_that_rounds_down():
    (finding,) = found(ones("blockIdx.x * blockDim.x + threadIdx.x"), modes=["init"], dims={"N": 7})
    assert finding.text.endswith("the first at index 4: N // 4 rounds down, and cdiv rounds up")


def test_an_index_without_the_block():
    (race,) = found(ones("threadIdx.x"), modes=["race"], dims={"N": 8})
    assert "two blocks write there: is blockIdx in the index?" in race.text


def test_a_copy_that_nobody_waits_for():
    source = """#include <tkjit/cp_async.cuh>
__global__ void reverse(Globals g) {
    __shared__ __align__(16) float tile[128];
    if (threadIdx.x < 32) tkjit::cp_async_16(&tile[4 * threadIdx.x], &g.x[4 * threadIdx.x]);
    tkjit::cp_async_commit();
    tkjit::cp_async_wait<1>();
    __syncthreads();
    g.y[threadIdx.x] = tile[127 - threadIdx.x];
}"""
    kinds = {one.kind: one for one in found(reverse(source), modes=["init"])}
    assert {kinds["copy"].here.line, kinds["copy"].there.line} == {4, 8}
    assert "is used while an asynchronous copy to it is under way; wait for the copy first" in kinds["copy"].text
    assert check(reverse(source.replace("wait<1>", "wait<0>"))).findings == []


def test_a_deadlock_has_a_place():
    hanging = reverse(
        CLEAN.replace("__syncthreads();", "if (threadIdx.x < 32) __syncthreads(); else __syncthreads_or(1);")
    )
    (fault,) = found(hanging, modes=["race"])
    assert fault.kind == "fault" and "meets" in fault.text and fault.here.line == 4


def test_a_loop_that_never_ends_is_ended():
    endless = reverse(CLEAN.replace("    __syncthreads();", "    for (volatile int i = 0; i < 1; i = i * 1) {}"))
    for mode in ("memory", "race"):
        with pytest.raises(KernelCheckError) as caught:
            check(endless, modes=[mode], timeout_s=1.0)
        report = caught.value.report
        faults = [one for one in report.findings if one.kind == "fault"]
        assert report.launches == 1  # each other one would take as long
        assert [(one.text, one.here.line, one.here.thread) for one in faults] == [
            ("it does not end: a loop, or a wait for what no thread does; --timeout gives it longer", 4, (0, 0, 0))
        ]


def test_a_loop_of_barriers_has_its_line():
    """Most signals come between two threads, where no call leads to the kernel."""
    endless = reverse(
        CLEAN.replace("    __syncthreads();", "    for (volatile int i = 0; i < 1; i *= 1) __syncthreads();")
    )
    for mode in ("memory", "race"):
        with pytest.raises(KernelCheckError) as caught:
            check(endless, modes=[mode], timeout_s=1.0)
        (fault,) = [one for one in caught.value.report.findings if one.kind == "fault"]
        assert fault.text.startswith("it does not end") and fault.here.line == 4


@pytest.mark.parametrize(("grid", "asked"), [("cdiv(N, 256)", False), (("cdiv(N, 256)", 1), True)])
def test_what_is_not_written_asks_for_axes_where_there_are_some(grid, asked):
    @tkjit.kernel("__global__ void f(Globals g) { g.y[0] = 1; }", entry="f", grid=grid, block=1)
    def f(x: In[Tensor, F32, "N"], y: Out[Tensor, F32, "N"]) -> Tensor: ...

    (unwritten,) = [one for one in found(f, modes=["init"], dims={"N": 3}) if one.kind == "unwritten"]
    assert unwritten.text.startswith("2 elements of the output y are not written, the first at index 1: ")
    assert ("the grid's x and y are swapped" in unwritten.text) == asked


def test_a_wait_for_what_nobody_does():
    source = """__global__ void reverse(Globals g) {
    __shared__ int flag;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    while (atomicAdd(&flag, 0) == 0) {}
}"""
    (fault,) = [one for one in found(reverse(source), modes=["race"]) if one.kind == "fault"]
    assert fault.text.startswith("deadlock") and fault.here.line == 5


def test_a_block_whose_thread_comes_late_is_waited_for(tmp_path, monkeypatch):
    source = """__device__ unsigned arrived = 0;
__global__ void reverse(Globals g) {
    __threadfence();
    atomicAdd(&arrived, 1u);
    while (atomicAdd(&arrived, 0u) < 4) {}
    if (blockIdx.x == 0) for (int i = 0; i < 128; ++i) g.y[i] = g.x[127 - i];
}"""
    (tmp_path / "late.cpp").write_text(LATE)
    subprocess.run(["g++", "-shared", "-fPIC", tmp_path / "late.cpp", "-o", tmp_path / "late.so", "-ldl"], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(tmp_path / "late.so"))
    assert check(reverse(source, grid=4, block=1, cooperative=True), modes=["race", "order"]).findings == []


def test_a_fence_orders_what_is_told_through_an_atomic():
    source = """__global__ void reverse(Globals g) {
    __shared__ unsigned told;
    if (threadIdx.x == 0) told = 0;
    __syncthreads();
    if (threadIdx.x < 64) {
        g.y[threadIdx.x] = 1;
        FENCE
        atomicAdd(&told, 1u);
    } else {
        while (atomicAdd(&told, 0u) < 64) {}
        g.y[threadIdx.x] = g.y[threadIdx.x - 64];
    }
}"""
    assert check(reverse(source.replace("FENCE", "__threadfence_block();")), modes=["race"]).findings == []
    (race,) = found(reverse(source.replace("FENCE", "")), modes=["race"])
    assert {race.here.line, race.there.line} == {6, 11} and "y + " in race.text


def test_the_last_block_may_rely_on_each_threads_fence():
    source = """__device__ unsigned done;
__global__ void reverse(Globals g) {
    __shared__ bool is_last;
    g.y[blockIdx.x * 32 + threadIdx.x] = g.x[127 - (blockIdx.x * 32 + threadIdx.x)];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) is_last = atomicAdd(&done, 1u) == gridDim.x - 1;
    __syncthreads();
    if (is_last)
        for (int i = threadIdx.x; i < 128; i += 32) g.y[i] = g.y[i] + 0.f;
}"""
    assert check(reverse(source, grid=4, block=32)).findings == []
    race = found(reverse(source.replace("    __threadfence();\n", ""), grid=4, block=32), modes=["race"])[0]
    assert race.kind == "race" and {race.here.line, race.there.line} == {4, 9}


def test_an_atomic_does_not_hide_the_plain_write_before_it():
    source = """__device__ int counter;
__global__ void reverse(Globals g) {
    if (threadIdx.x == 0) counter = 0;
    atomicAdd(&counter, 1);
    g.y[threadIdx.x] = g.x[127 - threadIdx.x];
}"""
    (race,) = found(reverse(source), modes=["race"])
    assert {race.here.line, race.there.line} == {3, 4} and "counter + 0 bytes" in race.text


def test_a_host_function_that_launches():
    @tkjit.kernel(
        """__global__ void twice(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
cudaError_t run(Globals g, cudaStream_t stream) {
    twice<<<(g.x.cols() + 63) / 64, 64, 0, stream>>>(g.x.raw_ptr, g.y.raw_ptr, g.x.cols());
    return cudaGetLastError();
}""",
        entry="run",
        host=True,
    )
    def twice(x: In[Tensor, F32, "N"], y: Out[Tensor, F32, "N"]) -> Tensor:
        return 2 * x

    assert check(twice).findings == []


QUANTIZE = """
__global__ void quantize(Globals g) {
    const int pair = threadIdx.x, row = blockIdx.x;
    g.y(row, pair) = g.x(row, pair);
    if (pair == 0) g.scale[row] = __nv_fp8_e8m0(float(1 << row % 9));
}
"""


@pytest.mark.parametrize(
    ("is_written", "has_to_be", "text"),
    [
        ("g.x(row, pair)", "float(1 << row % 9)", None),
        (
            "g.x(row, 15 - pair)",
            "float(1 << row % 9)",
            r"y\[0, 0, [01]\] is -?[0-6]\.\d, and -?[0-6]\.\d by the reference",
        ),
        ("g.x(row, pair)", "float(2 << row % 9)", r"scale\[0\] is 2\.0, and 1\.0 by the reference"),
        ("g.x(row, pair)", "float(4 << row % 9)", r"scale\[0\] is 4\.0, and 1\.0 by the reference"),
    ],
)
def test_formats_of_block_scaling(is_written, has_to_be, text):
    source = QUANTIZE.replace("g.x(row, pair)", is_written).replace("float(1 << row % 9)", has_to_be)

    @tkjit.kernel(source, entry="quantize", grid="M", block=16)
    def quantize(
        x: In[Tensor, "float4_e2m1fn_x2", "M", 16],
        y: Out[Tensor, "float4_e2m1fn_x2", "M", 16],
        scale: Out[Tensor, "float8_e8m0fnu", "M"],
    ) -> tuple[Tensor, Tensor]:
        return x.view(torch.uint8), (2.0 ** (torch.arange(len(x)) % 9)).to(torch.float8_e8m0fnu)

    if text is None:
        assert check(quantize).findings == []
    else:
        (result,) = found(quantize, modes=["order"])
        assert result.kind == "result" and re.match(text, result.text)


def test_a_result_that_depends_on_the_order_of_blocks():
    @tkjit.kernel(
        "__device__ int next; __global__ void turns(Globals g) {\n"
        "    if (threadIdx.x == 0) g.y[blockIdx.x] = atomicAdd(&next, 1);\n}",
        entry="turns",
        grid=5,
        block=32,
    )
    def turns(x: In[Tensor, "int32", 5], y: Out[Tensor, "int32", 5]) -> Tensor: ...

    texts = [one.text for one in found(turns, modes=["order"])]
    assert any("y[0] is 0.0 in forward order, 4.0 in reverse order; 4 elements differ" in text for text in texts), texts


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_result_that_is_a_fifth_too_large(dtype):
    @tkjit.kernel(
        "template <class T> __global__ void f(Globals g) { g.y[threadIdx.x] = T(1.2f * float(g.x[threadIdx.x])); }",
        entry="f<T>",
        grid=1,
        block="N",
        variants={"T": (dtype,)},
    )
    def f(x: In[Tensor, "T", "N"], y: Out[Tensor, "T", "N"]) -> Tensor:
        return x.clone()

    assert {one.kind for one in found(f, modes=["order"])} == {"result"}


@pytest.mark.parametrize("order", ["forward", "reverse", "random", "adversarial"])
def test_orders_are_what_they_are_called(order, tmp_path):
    """A ticket for each thread, after a barrier: the order in which they go on."""

    @tkjit.kernel(
        """__global__ void tickets(Globals g) {
    __shared__ int next;
    if (threadIdx.x == 0) next = 0;
    __syncthreads();
    __syncwarp();
    g.y[atomicAdd(&next, 1)] = threadIdx.x;
}""",
        entry="tickets",
        grid=1,
        block=128,
    )
    def tickets(x: In[Tensor, F32, "N"], y: Out[Tensor, F32, 128]) -> Tensor: ...

    loader = loader_for(Settings.from_environment())
    (spec,) = tickets.specs
    program = loader.open(CheckerPlan(loader.env, spec, Variant(), loader.target("cpu"), RACE)).loaded
    arguments = cases_of(spec, Variant(), {"N": 1}, 0)[0].arguments

    def of_seed(seed: int) -> list[int]:
        done = run(program, spec, arguments, order=order, seed=seed, timeout_s=60)
        return [int(number) for number in done.outputs["y"]]

    first, second = of_seed(1), of_seed(2)
    assert sorted(first) == list(range(128))
    warps = [number // 32 for number in first]
    changes = sum(a != b for a, b in zip(warps, warps[1:], strict=False))
    if order in ("forward", "reverse"):
        assert first == second
        assert (first[10] < first[20]) == (order == "forward")
    else:
        assert first != second
    if order == "adversarial":
        assert changes == 3, "one warp runs as far as it can before another one does"
    if order == "random":
        assert changes > 20


def test_two_blocks_that_write_the_same_element():
    both = reverse(RACY.replace("tile[127 - threadIdx.x]", "g.x[127 - threadIdx.x]"), grid=2)
    (race,) = found(both, modes=["race"])
    assert {race.here.block, race.there.block} == {(0, 0, 0), (1, 0, 0)} and race.here.line == race.there.line == 4
