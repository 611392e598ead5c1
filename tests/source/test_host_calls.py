"""A host function that device code calls is a compile error, or fails at run time."""

import pytest

from tkjit.source.adapt import adapt

MESSAGE = "calling a __host__ function(f) from device code (k) is not allowed: write __device__ before it"
ERROR = f'_Pragma("GCC error \\"{MESSAGE}\\"") f('
GUARD = "::tkjit::sim::require_host();"
KERNEL = "__global__ void k(int* x) { x[0] = f(1); }\n"


@pytest.mark.parametrize(
    "source",
    [
        "int f(int x) { return x; }\n" + KERNEL,
        "#include <vector>\n#include <cuda_fp16.h>\nstatic int f(int);\n" + KERNEL + "int f(int x) { return x; }\n",
        "template <class T> T f(T x) { return x; }\n__device__ void k(int* x) { if (x) f(x); }\n",
        "namespace n { inline int f(int x) { return x; } __device__ void k(int* x) { x[0] = 1 + f(x[0]); } }\n",
    ],
)
def test_an_unambiguous_call_is_a_compile_error(source):
    adapted = adapt(source)
    assert adapted.count(ERROR) == 1 and adapted.count(GUARD) == 1
    assert adapted.count("\n") == source.count("\n")


@pytest.mark.parametrize(
    "source",
    [
        '#include "overloads.h"\nint f(int x) { return x; }\n' + KERNEL,
        "int f(int x) { return x; }\n__device__ int f(float x) { return x; }\n" + KERNEL,
        "int f(double x) { return x; }\n__device__ int f(float x);\n" + KERNEL,
        "int f(int x) { return x; }\n#define CALL f(1)\n" + KERNEL,
        "int f(int x) { return x; }\n__global__ void k(int* x, int (*f)(int)) { x[0] = f(1); }\n",
        "int f(int x) { return x; }\n__global__ void k(int* x) { auto f = [](int i) { return i; }; x[0] = f(1); }\n",
        "int f(int x) { return x; }\n__global__ void k(S s) { s.f(1); }\n",
        "int f(int x) { return x; }\n__global__ void k(int* x) { decltype(f(1)) i = sizeof(f(2)); x[0] = i; }\n",
        "int f(int x) { return x; }\nstruct S { F f; __device__ void k(int* x) { x[0] = f(1); } };\n",
        "using namespace n;\nint f(int x) { return x; }\n" + KERNEL,
        "int max(int3 x, int y) { return x.x; }\n__global__ void k(int* x) { x[0] = max(1, 2); }\n",
        "int sqrtf(int3 x) { return x.x; }\n__global__ void k(int* x) { x[0] = sqrtf(1); }\n",
        "int f(int x) { return x; }\n__host__ __device__ void k(int* x) { x[0] = f(1); }\n",
    ],
)
def test_an_ambiguous_name_is_checked_at_run_time(source):
    adapted = adapt(source)
    assert "GCC error" not in adapted and adapted.count(GUARD) == 1


@pytest.mark.parametrize(
    "source",
    [
        "#ifndef __CUDACC__\nint f(int x) { return x; }\n#endif\n" + KERNEL,
        "#ifdef TKJIT_SIM\nint f(int x) { return x; }\n#else\n__device__ int f(int x);\n#endif\n" + KERNEL,
        "constexpr int f(int x) { return x; }\n" + KERNEL,
        "__host__ __device__ int f(int x) { return x; }\n" + KERNEL,
        "FROM_A_HEADER int f(int x) { return x; }\n" + KERNEL,
        "struct S { int f(int x) { return x; } };\n" + KERNEL,
        "int S::f(int x) { return x; }\n" + KERNEL,
        "int f(int x) { return x; }\nint h() { return f(1); }\n__global__ void k(int* x) { x[0] = 1; }\n",
        "int f(int x) { return x; }\nvoid h() { g([=] __device__ { return 1; }, f(1)); }\n",
    ],
)
def test_other_sources_stay_unchanged(source):
    assert adapt(source) == source


def test_a_source_for_the_cpu_alone_may_call_host_functions():
    source = "int f(int x) { return x; }\n" + KERNEL
    assert adapt(source, for_gpus=False) == source
