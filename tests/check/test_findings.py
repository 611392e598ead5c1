"""The findings of each mode of the checker: their kinds and source lines, and code without findings."""

from __future__ import annotations

import re
import subprocess

import pytest
import torch
from support.checked import CLEAN, F32, RACY, found, reverse

import tkjit
from tkjit import In, Out, Scratch, Tensor
from tkjit.check.cases import cases_of
from tkjit.check.child_process import ORDERS, run
from tkjit.check.plan import RACE, CheckerPlan
from tkjit.config import Settings
from tkjit.loader import loader_for
from tkjit.spec import Variant
from tkjit.testing import KernelCheckError, check

pytestmark = pytest.mark.compiles

# makes every new OS thread sleep before it starts, as on an overloaded machine
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


def test_a_clean_kernel_has_no_findings():
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


def test_each_mode_reports_only_its_own_findings():
    assert {finding.kind for finding in found(reverse(RACY), modes=["init"])} == {"uninitialized"}
    assert {finding.kind for finding in found(reverse(RACY), modes=["order"])} <= {"order", "result"}
    assert check(reverse(RACY), modes=["memory"]).findings == []


def test_a_wrong_result_is_found():
    wrong = reverse(CLEAN.replace("127 - threadIdx.x", "threadIdx.x"))
    (result,) = found(wrong, modes=["order"])
    assert result.kind == "result" and re.match(
        r"y\[\d+\] is .*, but the reference \(the function's body\) gives .*; \d+ elements differ", result.text
    )


def test_a_result_that_depends_on_the_order_of_threads_is_found():
    source = "__global__ void reverse(Globals g) { g.y[threadIdx.x] = g.x[127 - threadIdx.x]; g.y[0] = threadIdx.x; }"
    kinds = {finding.kind: finding.text for finding in found(reverse(source), modes=["order"])}
    assert re.search(
        r"depends on the order of the threads: y\[0\] is .* in forward order, .* in \w+ order", kinds["order"]
    )


@pytest.mark.parametrize(
    "statement, text",
    [
        ("g.y[threadIdx.x + 1] = 0;", "4 bytes right after y, which has 512 bytes"),
        ("g.y[int(threadIdx.x) - 1] = 0;", "4 bytes, 4 bytes before y"),
        ("g.y[threadIdx.x + 100000] = 0;", "bytes after y, which has 512 bytes"),
        ("tile[threadIdx.x + 1] = 0;", "after tile, which has 512 bytes"),
        ("float own[4] = {}; for (int i = 0; i < int(threadIdx.x); ++i) own[i % 5] += i; g.y[0] = own[1];", "own"),
        ("TKJIT_DYNAMIC_SHARED(float, rest); rest[threadIdx.x] = 1; g.y[0] = rest[5];", "access"),
    ],
    ids=["after", "before", "far", "shared", "local", "dynamic"],
)
def test_accesses_out_of_bounds_are_found(statement, text):
    source = "#include <tkjit/shared_memory.cuh>\n" + CLEAN.replace("    g.y", f"    {statement}\n    g.y")
    memory = [finding for finding in found(reverse(source), modes=["memory"]) if finding.kind == "memory"]
    assert memory and memory[0].here.line == 6 and memory[0].here.file == "inline.cu"
    assert text in memory[0].text


def test_an_access_past_a_shared_array_of_a_template_is_found():
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
    assert memory.here.line == 4 and "right after tile, which has 32 bytes" in memory.text


def test_a_misaligned_vector_is_found():
    source = CLEAN.replace(
        "    g.y", "    if (threadIdx.x < 8) g.y[0] = reinterpret_cast<const float4*>(&g.x[1])[threadIdx.x].x;\n    g.y"
    )
    (memory,) = found(reverse(source), modes=["memory"])
    assert memory.here.line == 5 and memory.text.startswith(
        "x + 4 bytes is not aligned to 16 bytes, which this access requires; access single"
    )


def test_an_unwritten_element_is_found():
    (finding,) = found(reverse(CLEAN.replace("    g.y", "    if (threadIdx.x != 7) g.y")), modes=["init"])
    text = "1 element of the output y is not written, the first at index 7: the grid or the index leaves it out"
    assert finding.text.startswith(text)


def test_scratch_need_not_be_written_but_is_undefined():
    @tkjit.kernel(
        "__global__ void copy(Globals g) { g.t[0] = g.x[0]; g.y[0] = g.t[g.place]; }", entry="copy", grid=1, block=1
    )
    def copy(x: In[Tensor, F32, 1], place: int, t: Scratch[Tensor, F32, 8], y: Out[Tensor, F32, 1]) -> Tensor: ...

    x = torch.ones(1)
    assert check(copy, x, 0, modes=["init"]).findings == []
    with pytest.raises(KernelCheckError, match="uninitialized"):
        check(copy, x, 3, modes=["init"])


def ones(index: str, **options):
    source = f"__global__ void ones(Globals g) {{ g.y[{index}] = 1; }}"

    @tkjit.kernel(source, entry="ones", grid="N // 4", block=4, **options)
    def ones(x: In[Tensor, F32, "N"], y: Out[Tensor, F32, "N"]) -> Tensor: ...

    return ones


def test_a_grid_that_rounds_down_is_explained():
    (finding,) = found(ones("blockIdx.x * blockDim.x + threadIdx.x"), modes=["init"], dims={"N": 7})
    assert finding.text.endswith("the first at index 4: N // 4 rounds down; use cdiv, which rounds up")


def test_a_grid_that_is_exact_is_not_blamed():
    kernel = ones("blockIdx.x * blockDim.x", constraints="N % 8 == 0")
    (finding,) = found(kernel, modes=["init"], dims={"N": 8})
    assert "rounds down" not in finding.text and "the grid or the index leaves them out" in finding.text


def test_an_index_without_blockIdx_is_explained():
    (race,) = found(ones("threadIdx.x"), modes=["race"], dims={"N": 8})
    assert "two blocks write there: is blockIdx in the index?" in race.text


@pytest.mark.slow
def test_a_copy_without_a_wait_is_found():
    source = """#include <tkjit/cp_async.cuh>
__global__ void reverse(Globals g) {
    __shared__ __align__(16) float tile[128];
    if (threadIdx.x < 32) tkjit::cp_async_16(&tile[4 * threadIdx.x], &g.x[4 * threadIdx.x]);
    tkjit::cp_async_commit();
    tkjit::cp_async_wait<1>();
    __syncthreads();
    g.y[threadIdx.x] = tile[127 - threadIdx.x];
}"""
    kinds = {finding.kind: finding for finding in found(reverse(source), modes=["init"])}
    assert {kinds["copy"].here.line, kinds["copy"].there.line} == {4, 8}
    assert "is used while an asynchronous copy to it is in progress; wait for the copy first" in kinds["copy"].text
    assert check(reverse(source.replace("wait<1>", "wait<0>"))).findings == []


def test_a_deadlock_is_reported_with_its_line():
    hanging = reverse(
        CLEAN.replace("__syncthreads();", "if (threadIdx.x < 32) __syncthreads(); else __syncthreads_or(1);")
    )
    (fault,) = found(hanging, modes=["race"])
    assert fault.kind == "fault" and "meets" in fault.text and fault.here.line == 4


@pytest.mark.slow  # waits for seconds
def test_an_endless_loop_is_stopped():
    endless = reverse(CLEAN.replace("    __syncthreads();", "    for (volatile int i = 0; i < 1; i = i * 1) {}"))
    for mode in ("memory", "race"):
        with pytest.raises(KernelCheckError) as caught:
            check(endless, modes=[mode], timeout_s=1.0)
        report = caught.value.report
        faults = [finding for finding in report.findings if finding.kind == "fault"]
        assert report.launches == 1  # no other launch, because each would take as long
        text = "it does not end: a loop, or a wait for something that no thread does; --timeout gives it longer"
        assert [(finding.text, finding.here.line, finding.here.thread) for finding in faults] == [(text, 4, (0, 0, 0))]


@pytest.mark.slow
def test_an_endless_loop_of_barriers_is_reported_with_its_line():
    """Most signals arrive in the scheduler, between two threads, where the kernel is not on the call stack."""
    endless = reverse(
        CLEAN.replace("    __syncthreads();", "    for (volatile int i = 0; i < 1; i *= 1) __syncthreads();")
    )
    for mode in ("memory", "race"):
        with pytest.raises(KernelCheckError) as caught:
            check(endless, modes=[mode], timeout_s=1.0)
        (fault,) = [finding for finding in caught.value.report.findings if finding.kind == "fault"]
        assert fault.text.startswith("it does not end") and fault.here.line == 4


@pytest.mark.parametrize(("grid", "has_axes"), [("cdiv(N, 256)", False), (("cdiv(N, 256)", 1), True)])
def test_an_unwritten_output_of_a_grid_with_axes_suggests_that_they_are_swapped(grid, has_axes):
    @tkjit.kernel("__global__ void f(Globals g) { g.y[0] = 1; }", entry="f", grid=grid, block=1)
    def f(x: In[Tensor, F32, "N"], y: Out[Tensor, F32, "N"]) -> Tensor: ...

    (unwritten,) = [finding for finding in found(f, modes=["init"], dims={"N": 3}) if finding.kind == "unwritten"]
    assert unwritten.text.startswith("2 elements of the output y are not written, the first at index 1: ")
    assert ("the grid's x and y are swapped" in unwritten.text) == has_axes


def test_a_wait_for_a_flag_that_is_never_set_is_a_deadlock():
    source = """__global__ void reverse(Globals g) {
    __shared__ int flag;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    while (atomicAdd(&flag, 0) == 0) {}
}"""
    (fault,) = [finding for finding in found(reverse(source), modes=["race"]) if finding.kind == "fault"]
    assert fault.text.startswith("deadlock") and fault.here.line == 5


@pytest.mark.slow
def test_blocks_wait_for_a_block_whose_os_thread_starts_late(tmp_path, monkeypatch):
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


def test_a_fence_orders_the_writes_before_an_atomic():
    source = """__global__ void reverse(Globals g) {
    __shared__ unsigned count;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    if (threadIdx.x < 64) {
        g.y[threadIdx.x] = 1;
        FENCE
        atomicAdd(&count, 1u);
    } else {
        while (atomicAdd(&count, 0u) < 64) {}
        g.y[threadIdx.x] = g.y[threadIdx.x - 64];
    }
}"""
    assert check(reverse(source.replace("FENCE", "__threadfence_block();")), modes=["race"]).findings == []
    (race,) = found(reverse(source.replace("FENCE", "")), modes=["race"])
    assert {race.here.line, race.there.line} == {6, 11} and "y + " in race.text


def test_the_last_block_can_rely_on_the_fence_of_each_thread():
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


def test_a_host_function_is_checked():
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "scale", "text"),
    [
        ("g.x(row, pair)", "float(1 << row % 9)", None),
        (
            "g.x(row, 15 - pair)",
            "float(1 << row % 9)",
            r"y\[0, 0, [01]\] is -?[0-6]\.\d, but the reference \(the function's body\) gives -?[0-6]\.\d",
        ),
        ("g.x(row, pair)", "float(2 << row % 9)", r"scale\[0\] is 2\.0, but the reference .* gives 1\.0"),
        ("g.x(row, pair)", "float(4 << row % 9)", r"scale\[0\] is 4\.0, but the reference .* gives 1\.0"),
    ],
)
def test_results_in_block_scaling_formats_are_compared(value, scale, text):
    source = QUANTIZE.replace("g.x(row, pair)", value).replace("float(1 << row % 9)", scale)

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


def test_a_result_that_depends_on_the_order_of_blocks_is_found():
    @tkjit.kernel(
        "__device__ int next; __global__ void turns(Globals g) {\n"
        "    if (threadIdx.x == 0) g.y[blockIdx.x] = atomicAdd(&next, 1);\n}",
        entry="turns",
        grid=5,
        block=32,
    )
    def turns(x: In[Tensor, "int32", 5], y: Out[Tensor, "int32", 5]) -> Tensor: ...

    texts = [finding.text for finding in found(turns, modes=["order"])]
    assert any("y[0] is 0.0 in forward order, 4.0 in reverse order; 4 elements differ" in text for text in texts), texts


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_result_that_is_a_fifth_too_large_is_found(dtype):
    @tkjit.kernel(
        "template <class T> __global__ void f(Globals g) { g.y[threadIdx.x] = T(1.2f * float(g.x[threadIdx.x])); }",
        entry="f<T>",
        grid=1,
        block=64,
        variants={"T": (dtype,)},
    )
    def f(x: In[Tensor, "T", 64], y: Out[Tensor, "T", 64]) -> Tensor:
        return x.clone()

    assert {finding.kind for finding in found(f, modes=["order"])} == {"result"}


@pytest.mark.parametrize("order", ["forward", "reverse", "random", "adversarial"])
def test_threads_run_in_the_requested_order(order, tmp_path):
    """Each thread takes a ticket after a barrier, so the tickets show the order in which the threads continue."""

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


def test_two_blocks_that_write_the_same_element_race():
    both = reverse(RACY.replace("tile[127 - threadIdx.x]", "g.x[127 - threadIdx.x]"), grid=2)
    (race,) = found(both, modes=["race"])
    assert {race.here.block, race.there.block} == {(0, 0, 0), (1, 0, 0)} and race.here.line == race.there.line == 4


def test_a_reference_to_a_temporary_value_is_found():
    source = """
    struct Pair { int first, second; };
    __device__ const int& first_of(const Pair& pair) { return pair.first; }
    __global__ void f(Globals g) {
        const int& i = first_of(Pair{int(threadIdx.x), 1});
        g.y[threadIdx.x] = g.x[i];
    }"""

    @tkjit.kernel(source, entry="f", grid=1, block=32)
    def f(x: In[Tensor, F32, 32], y: Out[Tensor, F32, 32]) -> Tensor:
        return x

    with pytest.raises(KernelCheckError) as caught:
        check(f, modes=["memory"])
    finding = caught.value.report.findings[0]
    assert finding.text == "access of 4 bytes to a local variable or temporary whose lifetime has ended"
    assert finding.here.line == 6
