"""A kernel with selectable errors, for tests of fault handling."""

from __future__ import annotations

import tkjit
from tkjit import In, Out, Tensor

SOURCE = r"""
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>

struct Node { virtual int value() const = 0; };
__device__ __attribute__((noinline)) int deep(int n, volatile int* sink) {
    volatile int room[64];
    room[n % 64] = n;
    *sink = n;
    return deep(n + 1, sink) + room[(n + 1) % 64];
}
__device__ __attribute__((noinline)) int wide(int n, const int* x) {
    volatile int room[400000];  // MARK wide
    room[n] = x[0];
    return room[n + 1];
}

__global__ void faulty(const __grid_constant__ Globals g) {
    __shared__ int shared[64];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int zero = g.x[0], one = g.x[1];
    shared[threadIdx.x] = i;
    if (g.who < 0 || i == g.who) switch (g.mistake) {
        case 1: g.y[i] = 7 / zero; break;  // MARK divide
        case 2: g.y[i] = 7u % unsigned(zero); break;  // MARK remainder
        case 3: *reinterpret_cast<volatile int*>(uintptr_t(zero)) = 1; break;  // MARK null
        case 4: g.y[i] = *reinterpret_cast<const volatile int*>(0x123456789000 + zero); break;  // MARK wild
        case 5: g.y[i] = deep(0, &g.y[i]); break;
        case 6: g.y[i] = wide(zero, g.x.raw_ptr); break;
        case 7: throw std::runtime_error("no such thing");  // MARK throw
        case 8: throw 7;  // MARK throw 7
        case 9: abort();  // MARK abort
        case 10: exit(3);  // MARK exit
        case 11: __builtin_trap();  // MARK trap
        case 12: g.y[i] = reinterpret_cast<int (*)()>(uintptr_t(zero))() + 1; break;  // MARK call
        case 13: g.y[i] = reinterpret_cast<const Node*>(uintptr_t(zero))->value() + 1; break;  // MARK virtual
        case 14: *reinterpret_cast<volatile int*>(0xdeadbeefdeadbeef + zero) = 1; break;  // MARK impossible
        case 15: const_cast<volatile char*>("literal")[zero] = 1; break;  // MARK literal
        case 16: g.y[i] = std::vector<int>(4).at(4 + zero); break;
        case 20: g.y[i] = (INT_MIN + zero) / -one; break;
        case 21: g.y[i] = (INT_MIN + zero) % -one; break;
        case 22: g.y[i] = (LLONG_MIN + zero) / -(long long)one == LLONG_MIN; break;
        case 23: g.y[i] = (LLONG_MIN + zero) % -(long long)one == 0; break;
        case 29:  // runs for seconds, and tells the test that it has begun
            *reinterpret_cast<volatile int*>(g.y.raw_ptr) = 1;
            for (volatile int n = 0; n < 2000000000; n = n + 1) {}
            break;
        case 30: printf("%s", reinterpret_cast<const char*>(uintptr_t(one + 15))); break;
    }
    __syncthreads();
    if (g.mistake == 0) g.y[i] = shared[63 - threadIdx.x];
}
"""


@tkjit.kernel(SOURCE, entry="faulty", grid="cdiv(N, 64)", block=64)
def faulty(x: In[Tensor, "int32", "N"], y: Out[Tensor, "int32", "N"], mistake: int, who: int = 100) -> Tensor: ...


HOST = r"""
__global__ void part(const int* x, int* y, int n, int divides) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = divides ? 7 / x[i] : 3;
}
void host(const Globals& g) {
    part<<<2, 64>>>(g.x.raw_ptr, g.y.raw_ptr, g.x.cols(), 0);
    part<<<2, 64>>>(g.x.raw_ptr, g.y.raw_ptr, g.x.cols(), g.divides);
}
"""


@tkjit.kernel(HOST, entry="host", host=True)
def host(x: In[Tensor, "int32", "N"], y: Out[Tensor, "int32", "N"], divides: int) -> Tensor: ...


def line(mark: str) -> str:
    """Return ``file:line`` of the line that ends in ``// MARK mark``."""
    (number,) = [i for i, text in enumerate(SOURCE.split("\n"), 1) if text.endswith(f"// MARK {mark}")]
    return f"inline.cu:{number}"
