"""Inline PTX over several simulated devices: multicast addresses, and blocks that wait for other blocks."""

from __future__ import annotations

import pytest
import torch

import tkjit
from tkjit import InOut, ParallelTensor, Tensor

pytestmark = pytest.mark.compiles


def test_blocks_can_wait_for_later_blocks():
    """The first of 100 blocks waits for the last one, which would never begin if the blocks shared an OS thread."""

    @tkjit.kernel(
        """
        __global__ void relay(int* flags, int blocks) {
            if (threadIdx.x) return;
            const int next = blockIdx.x + 1;
            int seen = next == blocks;
            while (!seen) asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(flags + next));
            asm volatile("st.release.gpu.global.s32 [%0], %1;" :: "l"(flags + blockIdx.x), "r"(seen + 1) : "memory");
        }
        """,
        entry="relay",
        args=True,
        grid="N",
        block=32,
        computed={"blocks": "N"},
    )
    def relay(flags: InOut[Tensor, "int32", "N"]) -> None: ...

    flags = torch.zeros(100, dtype=torch.int32)
    relay(flags)
    assert flags.tolist() == list(range(101, 1, -1))[:100]


def test_devices_can_wait_for_each_other_with_loads():
    @tkjit.kernel(
        """
        #include <tkjit/pgl.h>
        __global__ void meet(tkjit::pgl<int> flags, int* sums, int dev_idx, int num_devices) {
            if (threadIdx.x) return;
            for (int device = 0; device < num_devices; ++device) {
                asm volatile("red.release.sys.global.add.s32 [%0], %1;" ::"l"(flags.pointers[device]), "r"(1));
            }
            int seen = 0;
            while (seen != num_devices) {
                asm volatile("ld.acquire.sys.global.s32 %0, [%1];" : "=r"(seen) : "l"(flags.pointers[dev_idx]));
            }
            *sums = seen;
        }
        """,
        entry="meet",
        args=True,
        grid=1,
        block=32,
        computed={"dev_idx": "dev_idx", "num_devices": "num_devices"},
        fields="flags sums dev_idx num_devices",
    )
    def meet(flags: InOut[ParallelTensor, "int32", 1], sums: InOut[Tensor, "int32", 1]) -> None: ...

    flags, sums = ([torch.zeros(1, dtype=torch.int32) for _ in range(4)] for _ in range(2))
    meet(flags, sums)
    assert [each.item() for each in sums] == [4] * 4


def test_an_ordinary_address_is_not_a_multicast_address():
    @tkjit.kernel(
        """
        __global__ void store(float* x) { asm volatile("multimem.st.weak.global.f32 [%0], %1;" :: "l"(x), "f"(1.f)); }
        """,
        entry="store",
        args=True,
        grid=1,
        block=1,
    )
    def store(x: InOut[Tensor, "float32", "N"]) -> None: ...

    with pytest.raises(tkjit.LaunchError, match=r"multimem of 4 bytes: 0x[0-9a-f]+ is not a multicast address"):
        store(torch.zeros(1))


SLOW_TO_BEGIN = """
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>
namespace {
struct Begin {
    void* (*run)(void*);
    void* argument;
};
void* begin_late(void* given) {
    const Begin begin = *static_cast<Begin*>(given);
    delete static_cast<Begin*>(given);
    timespec nap{7, 0};
    nanosleep(&nap, nullptr);
    return begin.run(begin.argument);
}
}  // namespace
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* how, void* (*run)(void*), void* argument) {
    using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
    static const Create create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
    return create(thread, how, begin_late, new Begin{run, argument});
}
__global__ void meet(int* count) {
    atomicAdd(count, 1);
    while (atomicAdd(count, 0) < int(gridDim.x)) __nanosleep(100);
}
"""


@pytest.mark.slow  # waits for seconds
def test_the_launch_waits_for_blocks_that_begin_late():
    """With hundreds of OS threads, some begin late; in this test, later than the time limit for waiting blocks."""

    @tkjit.kernel(SLOW_TO_BEGIN, entry="meet", args=True, grid=6, block=1)
    def meet(count: InOut[Tensor, "int32", 1]) -> None: ...

    count = torch.zeros(1, dtype=torch.int32)
    meet(count)
    assert int(count) == 6
