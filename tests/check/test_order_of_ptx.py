"""The order that PTX's instructions give to memory, and the order that they do not: right kernels and wrong twins.

Source: PTX ISA, "Memory Consistency Model", "elect.sync", "mbarrier", "cp.async.mbarrier.arrive", "wgmma.fence".
"""

from __future__ import annotations

import pytest
import torch
from support.define import define

import tkjit
from tkjit.testing import KernelCheckError, check

pytestmark = pytest.mark.compiles

OPENING = """
#include <stdint.h>
#include <mma.h>
#include <tkjit/gl.h>
__device__ inline uint32_t shared_address(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ inline void init(uint64_t* b, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(count) : "memory");
}
__device__ inline void arrive(uint64_t* b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}
__device__ inline void arrive_relaxed(uint64_t* b) {
    asm volatile("mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}
__device__ inline bool try_wait(uint64_t* b, unsigned parity) {
    uint32_t done;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(shared_address(b)), "r"(parity) : "memory");
    return done;
}
__device__ inline bool try_wait_relaxed(uint64_t* b, unsigned parity) {
    uint32_t done;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 p, [%1], %2;"
                 "selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(shared_address(b)), "r"(parity) : "memory");
    return done;
}
__device__ inline void load(float* to, const float* from, unsigned bytes, uint64_t* b) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 ::"r"(shared_address(b)), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(b)) : "memory");
}
__device__ inline void copy_word(float* to, const float* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
__device__ constexpr bool elect(bool is_constant = false) {  // a constexpr function may contain an asm statement
    if (is_constant) return true;
    uint32_t is_leader = 0;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(is_leader));
    return is_leader;
}
__global__ void f(const __grid_constant__ Globals g) {
    __shared__ alignas(128) float tile[64];
    __shared__ uint64_t ready, other;
    const int i = threadIdx.x;
    BODY
}
"""

ELECT = """
    tile[i] = g.x[i];
    SYNC
    if (elect()) for (int k = 0; k < 32; ++k) g.y[k + (i & 32)] = tile[k + (i & 32)];
"""
LOAD = """
    if (i == 0) { init(&ready, 1); asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
    __syncthreads();
    if (i == 0) load(tile, &g.x[0], 256, &ready);
    WAIT
    g.y[i] = tile[63 - i];
"""
HAND_OVER = """
    if (i == 0) init(&ready, 32);
    __syncthreads();
    if (i < 32) {
        tile[i] = g.x[i];
        ARRIVE
    } else {
        WAIT
        g.y[i] = tile[63 - i];
    }
    if (i < 32) g.y[i] = 0;
"""
COPIES = """
    if (i == 0) init(&ready, COUNT);
    __syncthreads();
    copy_word(&tile[i], &g.x[i]);
    ARRIVE
    WAIT
    g.y[i] = tile[63 - i];
"""
NOINC = 'asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&ready)) : "memory");'
COUNTED = NOINC.replace(".noinc", "") + " arrive(&ready);"
WAIT_ALL = 'asm volatile("cp.async.wait_all;" ::: "memory"); __syncthreads();'
DROP = """
    if (i == 0) init(&ready, 64);
    __syncthreads();
    tile[i] = g.x[i];
    if (i < 32) {
        DROP
        g.y[i] = 0;
    } else {
        for (int phase = 0; phase < 3; ++phase) {
            arrive(&ready);
            while (!try_wait(&ready, phase & 1)) {}
        }
        g.y[i] = tile[63 - i];
    }
"""
DROPS = 'asm volatile("mbarrier.arrive_drop.shared::cta.b64 _, [%0];" ::"r"(shared_address(&ready)) : "memory");'
REUSE = """
    if (i == 0) { init(&ready, 64); }
    __syncthreads();
    tile[i] = g.x[i];
    arrive(&ready);
    while (!try_wait(&ready, 0)) {}
    const float mine = tile[63 - i];
    __syncthreads();
    if (i == 0) {
        INVAL
        *(float*)&ready = mine;
    }
    g.y[i] = mine;
"""
INVAL = 'asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(&ready)) : "memory");'
UNION = """
    __shared__ union { float f[64]; int bits[64]; } u;
    u.f[i] = g.x[i];
    SYNC
    g.y[i] = __int_as_float(u.bits[63 - i]);
"""
WMMA = """
    __shared__ half a[256], b[256];
    __shared__ float c[256];
    for (int k = i; k < 256; k += 64) a[k] = b[k] = 0;
    __syncthreads();
    if (i < 32) {
        using namespace nvcuda;
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
        wmma::fill_fragment(fc, 1.0f);
        wmma::load_matrix_sync(fa, a, 16);
        wmma::load_matrix_sync(fb, b, 16);
        wmma::mma_sync(fc, fa, fb, fc);
        wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
        SYNC
        g.y[i] = g.x[i] * c[255 - i];
        g.y[i + 32] = g.x[i + 32] * c[i];
    }
"""
# the second warp ends early, so that threads of the first begin on the stacks of its threads
EARLY_END = """
    if (i >= 32) {
        g.y[i] = 0;
        asm volatile("bar.arrive 1, 64;" ::: "memory");
        return;
    }
    asm volatile("bar.sync 1, 64;" ::: "memory");
    CONDITION asm volatile("INSTRUCTION.sync.aligned;" ::: "memory");
    g.y[i] = g.x[i];
"""
IS_IN_FIRST_HALF = torch.arange(64) < 32
LOOP = "while (!try_wait(&ready, 0)) {}"
LOOP_RELAXED = "while (!try_wait_relaxed(&ready, 0)) {}"
FENCE = "__threadfence_block();"


# a barrier with a number, a load of a matrix, and bytes that arrive without a copy
BARRIER = """
    tile[i] = g.x[i];
    SYNC
    g.y[i] = tile[63 - i];
"""
BAR = 'asm volatile("bar.sync 1, 64;" ::: "memory");'
LDMATRIX = """
    tile[i] = g.x[i];
    __syncthreads();
    uint32_t bits;
    const uint32_t row = shared_address(&tile[i % 8 * 4]);
    LOAD
    g.y[i] = g.x[i] + 0 * bits;
"""
MATRIX = 'asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(bits) : "r"(row) : "memory");'
BYTES = """
    if (i == 0) init(&ready, 1);
    __syncthreads();
    if (i == 0) {
        uint64_t state;
        uint32_t pending;
        const uint32_t b = shared_address(&ready);
        asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 16;" ::"r"(b) : "memory");
        COMPLETE
        asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(b) : "memory");
        asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(pending) : "l"(state));
        if (pending != 1) __trap();
    }
    while (!try_wait(&ready, 0)) {}
    g.y[i] = g.x[i];
"""
COMPLETE = 'asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 16;" ::"r"(b) : "memory");'


def branches(statement: str) -> str:
    return f"if (i % 2) {{\n{statement}\n}} else {{\n{statement}\n}}"


def first_half(x):
    return torch.where(IS_IN_FIRST_HALF, x, 0)


def reversed_second_half(x):
    return torch.where(IS_IN_FIRST_HALF, 0, x.flip(0))


# for each kernel: its body, the parts of the right one, and its result
RIGHT = {
    "elect": (ELECT, {"SYNC": "__syncwarp();"}, lambda x: x),
    "load": (LOAD, {"WAIT": LOOP}, lambda x: x.flip(0)),
    "load, polled": (LOAD, {"WAIT": "try_wait(&ready, 0); " + LOOP}, lambda x: x.flip(0)),
    "load, relaxed with a fence": (LOAD, {"WAIT": LOOP_RELAXED + FENCE}, lambda x: x.flip(0)),
    "hand over": (HAND_OVER, {"ARRIVE": "arrive(&ready);", "WAIT": LOOP}, reversed_second_half),
    "hand over, relaxed with fences": (
        HAND_OVER,
        {"ARRIVE": f"{FENCE} arrive_relaxed(&ready);", "WAIT": LOOP_RELAXED + FENCE},
        reversed_second_half,
    ),
    "copies": (COPIES, {"COUNT": "64", "ARRIVE": NOINC, "WAIT": LOOP}, lambda x: x.flip(0)),
    "copies, counted": (COPIES, {"COUNT": "64", "ARRIVE": COUNTED, "WAIT": LOOP}, lambda x: x.flip(0)),
    "copies, waited for by group": (COPIES, {"COUNT": "64", "ARRIVE": NOINC, "WAIT": WAIT_ALL}, lambda x: x.flip(0)),
    "drop": (DROP, {"DROP": DROPS}, reversed_second_half),
    "reuse": (REUSE, {"INVAL": INVAL}, lambda x: x.flip(0)),
    "union": (UNION, {"SYNC": "__syncthreads();"}, lambda x: x.flip(0)),
    "wmma": (WMMA, {"SYNC": "__syncwarp();"}, lambda x: x),
    "early end": (EARLY_END, {"CONDITION": "", "INSTRUCTION": "wgmma.fence"}, first_half),
    "early end, tcgen05": (EARLY_END, {"CONDITION": "", "INSTRUCTION": "tcgen05.wait::ld"}, first_half),
    "aligned barrier": (BARRIER, {"SYNC": BAR}, lambda x: x.flip(0)),
    "barrier in two branches": (BARRIER, {"SYNC": branches(BAR.replace("bar.", "barrier."))}, lambda x: x.flip(0)),
    "ldmatrix": (LDMATRIX, {"LOAD": MATRIX}, lambda x: x),
    "complete_tx": (BYTES, {"COMPLETE": COMPLETE}, lambda x: x),
}
WRONG = {
    "elect": ("elect", {"SYNC": ""}, "nothing orders"),
    "a poll whose result is ignored": ("load", {"WAIT": "try_wait(&ready, 0);"}, "asynchronous"),
    "a poll of other threads": ("hand over", {"WAIT": "try_wait(&ready, 0);"}, "nothing orders"),
    "a relaxed wait for a copy": ("load", {"WAIT": LOOP_RELAXED}, "the wait for the mbarrier is relaxed"),
    "a relaxed wait": ("hand over", {"WAIT": LOOP_RELAXED}, "the wait for the mbarrier is relaxed"),
    "a relaxed arrival": ("hand over", {"ARRIVE": "arrive_relaxed(&ready);"}, "nothing orders"),
    "copies that nobody waits for": ("copies", {"WAIT": "__syncthreads();"}, "asynchronous"),
    "counted copies that nobody waits for": ("copies, counted", {"WAIT": "__syncthreads();"}, "asynchronous"),
    "a missing drop": ("drop", {"DROP": "arrive(&ready);"}, "lacks 32 of 64 arrivals"),
    "an mbarrier in use": ("reuse", {"INVAL": ""}, "is an mbarrier; execute mbarrier.inval"),
    "a union": ("union", {"SYNC": ""}, "two accesses to u \\+"),
    "wmma": ("wmma", {"SYNC": ""}, "nothing orders"),
    "early end": ("early end", {"CONDITION": "if (i < 16)"}, "only part of the warp executes this wgmma.fence"),
    "early end, tcgen05": (
        "early end, tcgen05",
        {"CONDITION": "if (i < 16)"},
        "only part .* executes this tcgen05.wait::ld",
    ),
    "an aligned barrier in two branches": ("aligned barrier", {"SYNC": branches(BAR)}, "divergent barrier"),
    "ldmatrix in two branches": ("ldmatrix", {"LOAD": branches(MATRIX)}, "divergent instruction"),
    "missing bytes": ("complete_tx", {"COMPLETE": ""}, "lacks 16 expected bytes"),
}


def kernel(name: str, **changed: str) -> tkjit.Kernel:
    body, parts, _ = RIGHT[name]
    for part, text in {**parts, **changed}.items():
        body = body.replace(part, text)
    signature = '(x: In[Tensor, "float32", 64], y: Out[Tensor, "float32", 64]) -> Tensor'
    return define(OPENING.replace("BODY", body), signature, entry="f", grid=1, block=64)


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_kernel(name):
    made = kernel(name)
    x = torch.randn(64)
    assert torch.equal(made(x), RIGHT[name][2](x))
    check(made, modes=("race",))


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_is_found(name):
    right, changed, text = WRONG[name]
    with pytest.raises(KernelCheckError, match=text):
        check(kernel(right, **changed), modes=("race",))


def test_a_finding_names_the_calls_of_wrappers():
    source = OPENING.replace("BODY", LOAD.replace("WAIT", "try_wait(&ready, 0);"))
    lines = source.splitlines()
    with pytest.raises(KernelCheckError) as caught:
        check(kernel("load", WAIT="try_wait(&ready, 0);"), modes=("race",))
    finding = caught.value.report.findings[0]
    copy = next(place for place in (finding.here, finding.there) if place.access.startswith("asynchronous"))
    assert "cp.async.bulk" in lines[copy.line - 1]
    (caller,) = copy.callers
    assert "load(tile," in lines[int(caller.split(":")[1]) - 1]
