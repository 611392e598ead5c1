"""Sources that are adapted together with their headers, up to the results of a call."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import tkjit
from tkjit import CompileError, InOut, LaunchError, Tensor

pytestmark = pytest.mark.compiles


def run(directory: Path, source: str, header: str, *, threads: int = 32, **options) -> torch.Tensor:
    """Return the four numbers that the kernel `f` writes."""
    (directory / "of_library.cuh").write_text(header)
    path = directory / "kernel.cu"
    path.write_text(f'#include "of_library.cuh"\n{source}')

    @tkjit.kernel(path, entry="f", args=True, **({"grid": 1, "block": threads} | options))
    def f(x: InOut[Tensor, "float32", "N"]) -> None: ...

    x = torch.zeros(4)
    f(x)
    return x


def test_keywords_that_nvcc_does_not_need_are_added(tmp_path):
    """The compiler rejects the text twice: the keyword ``template`` is missing first, and then ``typename``."""
    header = """
    struct pool { template <class T, int n> __device__ int count() { return n * sizeof(T); } };
    struct layout { struct tile { char bytes[8]; }; };
    template <class P, class L> __device__ float both(P p) {
        asm volatile("");
        return p.count<float, 2>() + sizeof(L::tile);
    }
    """
    assert run(tmp_path, "__global__ void f(float* x) { x[0] = both<pool, layout>(pool()); }", header)[0] == 16


def test_a_header_that_launches_a_pointer_and_unrolls_with_a_macro(tmp_path):
    """As in CUTLASS."""
    header = """
    #ifdef __CUDA_ARCH__
    #define UNROLL #pragma unroll
    #else
    #define UNROLL
    #endif
    template <int n> __global__ void fill(float* x) { UNROLL for (int i = 0; i < n; ++i) x[i] = i + 1; }
    inline void launch(void const* kernel, float* x) {
        void* arguments[] = {&x};
        cudaLaunchKernel(kernel, dim3(1), dim3(1), arguments, 0, nullptr);
    }
    inline void launch_both(float* x) {
        auto* three = &fill<3>;
        launch((void const*)three, x);
        launch(reinterpret_cast<void const*>(fill<1>), (float*)(void*)(x + 3));
    }
    """
    source = "void f(float* x) { launch_both(x); }"
    assert run(tmp_path, source, header, host=True, grid=None, block=None).tolist() == [1, 2, 3, 1]


def test_an_instruction_may_write_an_input(tmp_path):
    header = """
    __device__ inline unsigned next(unsigned x) {
        unsigned y;
        asm("add.u32 %1, %1, 1; mov.u32 %0, %1;" : "=r"(y) : "r"(x));
        return y * 10 + x;
    }
    """
    assert run(tmp_path, "__global__ void f(float* x) { x[0] = next(3); }", header)[0] == 43


def test_each_instance_of_a_template_has_its_own_shared_variables(tmp_path):
    header = """
    template <int n> __device__ float* place() { __shared__ float own[n], other; other = n; own[0] = n; return own; }
    __device__ inline unsigned address(void* p) {
        unsigned long long to;
        asm("cvta.to.shared.u64 %0, %1;" : "=l"(to) : "l"(p));
        return to;
    }
    """
    source = """
    __global__ void f(float* x) {
        float *a = place<2>(), *b = place<3>();
        x[0] = a[0], x[1] = b[0], x[2] = place<2>() == a && a != b, x[3] = address(a) < (228 << 10);
    }
    """
    assert run(tmp_path, source, header).tolist() == [2, 3, 1, 1]


def test_a_template_constant_can_be_part_of_an_opcode(tmp_path):
    """The source passes the constant with the constraint `C` of CUDA's guide to inline PTX."""
    header = """
    template <int mode> struct way;
    template <> struct way<0> { static constexpr const char round[] = ".rm", kind[] = "s32"; };
    template <> struct way<1> { static constexpr const char round[] = ".rp", kind[] = "s32"; };
    template <> struct way<2> { static constexpr const char none[] = ".rn", kind[] = "f32"; };
    template <int mode> __device__ float rounded(float x) {
        int to;
        asm("cvt%2i.s32.f32 %0, %1;" : "=r"(to) : "f"(x), "C"(way<mode>::round));
        return to;
    }
    constexpr char odd[] = "\\xA";
    __device__ inline float sum(float x) {
        if (x > 0) asm("add%2.%[kind] %0, %0, %0;" : "+f"(x) : [kind] "C"(way<2>::kind), "C"(way<2>::none));
        else x = 0;
        return x;
    }
    """
    source = "__global__ void f(float* x) { x[0] = rounded<0>(-1.5f), x[1] = rounded<1>(-1.5f), x[2] = sum(1.5f); }"
    assert run(tmp_path, source, header).tolist() == [-2, -1, 3, 0]


def test_prmt_can_replicate_a_sign_but_byte_perm_cannot(tmp_path):
    """PTX's prmt honours a selector's top bit. On an H100, ``__byte_perm`` compiles to prmt but ignores that bit."""
    header = """
    __device__ inline unsigned chosen(unsigned x, unsigned y, unsigned selectors) {
        unsigned to;
        asm("prmt.b32 %0, %1, %2, %3;" : "=r"(to) : "r"(x), "r"(y), "r"(selectors));
        return to;
    }
    """
    source = """
    __global__ void f(float* x) {
        x[0] = chosen(0x80, 0x7f, 0x7778), x[1] = chosen(0x80, 0x7f, 0x777c);
        x[2] = __byte_perm(0x80, 0x7f, 0x7778), x[3] = __byte_perm(0x80, 0x7f, 0x777c);
    }
    """
    assert run(tmp_path, source, header).tolist() == [0xFF, 0, 0x80, 0x7F]


def test_a_launch_in_a_header_works(tmp_path):
    header = """
    template <class T> void launch_on(void (*kernel)(T*, int), T* x, int n) {
        kernel<<<n,
                 2>>>(x, n);
    }
    """
    source = """
    __global__ void fill(float* x, int n) { x[2 * blockIdx.x + threadIdx.x] = n + threadIdx.x; }
    void f(float* x) { launch_on(fill, x, 2); }
    """
    assert run(tmp_path, source, header, host=True, grid=None, block=None).tolist() == [2, 3, 2, 3]


HOST_AND_DEVICE = """
__host__ __device__ inline int lane() {
#ifdef __CUDA_ARCH__
    int own; asm("mov.u32 %0, %%laneid;" : "=r"(own)); return own;
#else
    return -1;
#endif
}
inline int arch() {
#ifdef __CUDA_ARCH__
    return __CUDA_ARCH__;
#else
    return -1;
#endif
}
"""


@pytest.mark.slow
def test_the_architecture_is_undefined_in_host_functions_of_a_header(tmp_path):
    source = """
    __global__ void lanes(float* x) { x[threadIdx.x] = lane(); }
    void f(float* x) { lanes<<<1, 4>>>(x); cudaDeviceSynchronize(); x[0] = arch(); }
    """
    options = {"host": True, "grid": None, "block": None}
    assert run(tmp_path, source, HOST_AND_DEVICE, **options).tolist() == [-1, 1, 2, 3]
    with pytest.raises(LaunchError, match=r"of_library.cuh:2: host code calls a function whose __CUDA_ARCH__"):
        run(tmp_path, "void f(float* x) { x[0] = lane(); }", HOST_AND_DEVICE, **options)


@pytest.mark.slow
def test_editing_a_header_that_only_the_host_includes_rebuilds(tmp_path):
    """Only the second preprocessing pass lists such a header as a dependency."""
    header = '#ifndef __CUDA_ARCH__\n#include "of_host.h"\n#endif\ninline float value() { return from_host(); }\n'
    source = "void f(float* x) { x[0] = value(); }"
    for expected in (1, 2):
        (tmp_path / "of_host.h").write_text(f"inline float from_host() {{ return {expected}; }}\n")
        assert run(tmp_path, source, header, host=True, grid=None, block=None)[0] == expected


def test_code_is_selected_by_target(tmp_path):
    header = """
    #include <nv/target>
    __device__ inline float chosen() {
        float x = 0;
        NV_IF_TARGET(NV_PROVIDES_SM_90, (x += 1;))
        NV_IF_TARGET(NV_PROVIDES_SM_100, (x += 10;))
        NV_IF_ELSE_TARGET(NV_IS_HOST, x += 100;, x += max(1000, 2);)
        asm volatile("");
        return x;
    }
    """
    assert run(tmp_path, "__global__ void f(float* x) { x[0] = chosen(); }", header)[0] == 1001


def test_an_error_names_the_line_of_the_header(tmp_path):
    header = """__device__ inline void g() {
        asm volatile("bar.sync 0;\\n"
                     "bar.sync 1, 32;");
        nonsense();
    }
    """
    with pytest.raises(CompileError) as raised:
        run(tmp_path, "__global__ void f(float* x) { g(); }", header)
    assert f"{tmp_path / 'of_library.cuh'}:4:" in str(raised.value)


@pytest.mark.parametrize(
    "sign_a, sign_b, accumulates",
    [(-1, 1, 1), *(pytest.param(*signs, marks=pytest.mark.slow) for signs in [(1, -1, 1), (1, 1, 0)])],
)
def test_signs_and_scale_of_wgmma_with_sums_in_halves(tmp_path, sign_a, sign_b, accumulates):
    """A (in registers) and B are all ones, so that a sum is 16; D begins as 3."""
    header = """
    __device__ inline void multiply(unsigned (&d)[2], unsigned a, unsigned long long b) {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;"
            "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%0, %1}, {%2, %2, %2, %2}, %3, p, %5, %6, 0; }"
            : "+r"(d[0]), "+r"(d[1]) : "r"(a), "l"(b), "n"(ACCUMULATES), "n"(SIGN_A), "n"(SIGN_B));
    }
    """
    source = """
    #include <cuda_fp16.h>
    __global__ void f(float* x) {
        __shared__ __align__(128) __half b[128];
        b[threadIdx.x] = 1;
        __syncthreads();
        const __half2 one(1, 1), three(3, 3);
        unsigned d[2] = {*(const unsigned*)&three, *(const unsigned*)&three};
        const unsigned long long at = (__cvta_generic_to_shared(b) & 0x3ffff) >> 4;
        multiply(d, *(const unsigned*)&one, at | 8ull << 16 | 16ull << 32);
        const __half2 last = *(const __half2*)&d[1];
        if (threadIdx.x == 77) x[0] = __half2float(last.x), x[1] = __half2float(last.y);
    }
    """
    defines = {"SIGN_A": sign_a, "SIGN_B": sign_b, "ACCUMULATES": accumulates}
    expected = 16 * sign_a * sign_b + 3 * accumulates
    assert run(tmp_path, source, header, threads=128, defines=defines)[:2].tolist() == [expected, expected]


def test_a_block_may_end_with_arrivals_that_no_thread_waits_for(tmp_path):
    """As in FlashAttention-3, whose consumers release their last tile for a producer that has ended."""
    header = """
    inline __device__ void sync(int id) { asm volatile("bar.sync %0, 64;" ::"r"(id) : "memory"); }
    inline __device__ void arrive(int id) { asm volatile("bar.arrive %0, 64;" ::"r"(id) : "memory"); }
    """
    source = """
    __global__ void f(float* x) {
        __shared__ float value;
        if (threadIdx.x < 32) {
            sync(1);
            if (threadIdx.x == 0) x[blockIdx.x] = value;
            arrive(2);
        } else {
            value = blockIdx.x + 1;
            arrive(1);
            sync(2);
            value = -1;
            arrive(1);
        }
    }
    """
    assert run(tmp_path, source, header, threads=64, grid=4).tolist() == [1, 2, 3, 4]
