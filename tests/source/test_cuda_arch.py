"""The target (host or device) of each place in a source, and the value of `__CUDA_ARCH__` there."""

import re

import pytest

from tkjit.source.adapt import adapt

DEVICE, HOST = "TKJIT_SIM_CUDA_ARCH", "TKJIT_SIM_NO_CUDA_ARCH"
GUARD = "::tkjit::sim::require_device();"


def replacements(text: str) -> list[str]:
    """Return what replaced each `__CUDA_ARCH__` of a source, in order."""
    adapted = adapt(text)
    assert adapted.count("\n") == text.count("\n")
    adapted = re.sub(r"(#error) .*", r"\1", adapted)
    return re.findall(r"TKJIT_SIM_\w*CUDA_ARCH|__CUDA_ARCH__|#error", adapted)


IF = "\n#if __CUDA_ARCH__ >= 800\nx();\n#endif\n"


@pytest.mark.parametrize(
    "head, kind",
    [
        ("__global__ void f()", DEVICE),
        (
            "template <int N, class T = A<B>> static __device__ __forceinline__ auto f(T a = {}) -> decltype(T{})",
            DEVICE,
        ),
        ('extern "C" __global__ __launch_bounds__(128) void f()', DEVICE),
        ("struct S { int a, b; __device__ S() : a{1}, b(2)", DEVICE),
        ("namespace n { struct S : A<sizeof(int)> { __device__ int operator()(int i) const noexcept", DEVICE),
        ("#define HD __host__ __device__\nHD inline int f()", DEVICE),
        ("#ifdef A\n#define HD\n#else\n#define HD INLINE __device__\n#endif\nHD int f()", DEVICE),
        ("#define KERNEL(name) __global__ void name()\nKERNEL(f)", DEVICE),
        ("constexpr int f()", DEVICE),
        ("void f()", HOST),
        ("static inline std::vector<int> f(const T& x)", HOST),
        ("struct S { S() : a{1}", HOST),
        ("at::Tensor f(at::Tensor x)", HOST),
        ("cudaError_t f()", HOST),
        ("FROM_A_HEADER int f()", "#error"),
        ("FROM_A_HEADER(1) T f()", "#error"),
        ("FROM_A_HEADER f()", "#error"),
    ],
)
def test_the_head_of_a_function_decides(head, kind):
    assert replacements(f"{head} {{{IF}}}") == [kind]


def test_lambdas_in_host_functions():
    lambdas = f"void f() {{{IF} g([=] __device__(int i) mutable {{{IF}}}, [=](int i) {{{IF}}});{IF} }}"
    assert replacements(lambdas) == [HOST, DEVICE, HOST, HOST]


ON, END = "#ifdef __CUDA_ARCH__\n", "\n#endif\n"
DEFINED = f"{ON}#define G 1{END}"
BY_DEVICE, BY_HOST = "__device__ int f() { return G; }\n", "int h() { return G; }\n"


@pytest.mark.parametrize(
    "source, kind",
    [
        (f"{ON}__device__ int g();\n#else\nint g();{END}__device__ int f() {{ return g(); }}", DEVICE),
        (f"#ifndef __CUDA_ARCH__\nint g() {{ }}{END}int f() {{ return g(); }}", HOST),
        (DEFINED + BY_HOST, HOST),
        (DEFINED + BY_DEVICE, DEVICE),
        (f"{DEFINED}#ifdef G\n__global__ void f() {{}}{END}void h() {{ f<<<1,2>>>(); }}", DEVICE),
        (f"{ON}#warning yes{END}", DEVICE),
        (f"{ON}using T = A;\n#else\nusing T = B;{END}struct S {{ __device__ T f() {{}} }};", DEVICE),
        ("#define G __CUDA_ARCH__\n" + BY_DEVICE, DEVICE),
        (f"#define G __CUDA_ARCH__\n#define H G\nint f() {{\n#if H{END}}}", HOST),
        # host and device would each need their own value
        (f"{ON}#define G 1\n#else\n#define G 2{END}__device__ void f(int = G) {{}} {BY_HOST}", "#error"),
        (f"{ON}using T = A;{END}using U = T;\n__device__ U f() {{}}\nU h() {{}}", "#error"),
        (f"#define G __CUDA_ARCH__\n{BY_DEVICE}int h() {{\n#if G{END}}}", "#error"),
        (f"{DEFINED}FROM_A_HEADER int f() {{ return G; }}{BY_HOST}", "#error"),
        (f"constexpr int f() {{\n{ON}{END}}}\nint h() {{ return f(); }}", "#error"),
        # tkjit never runs a program's main
        (f"{DEFINED}{BY_DEVICE}int main() {{ return G; }}", DEVICE),
    ],
)
def test_conditions_outside_of_functions(source, kind):
    assert replacements(source) == [kind]


def test_names_that_the_launcher_uses_count_as_host_code():
    source = "#ifdef __CUDA_ARCH__\n#define STAGES 1\n#endif\n__global__ void f() { STAGES; }"
    assert DEVICE in adapt(source) and "#error" in adapt(source, frozenset(["STAGES"]))


def test_the_outer_condition_decides():
    inner = "#if __CUDA_ARCH__ >= 900\n#define B 1\n#endif\n"
    assert replacements(f"#ifndef __CUDA_ARCH__\nint g() {{}}\n{inner}#endif") == [HOST, HOST]


def test_host_code_keeps_the_undeclared_name():
    assert replacements("int f() { return __CUDA_ARCH__; }") == ["__CUDA_ARCH__"]
    assert replacements("__device__ int f() { return __CUDA_ARCH__; }") == [DEVICE]


def test_functions_for_both_are_guarded_if_they_depend_on_the_architecture():
    one = "__host__ __device__ int f() {\n#ifdef __CUDA_ARCH__\n#endif\n}\n"
    two = "__host__ __device__ int g() { return 1; }"
    assert adapt(one + two).count(GUARD) == 1
    assert GUARD not in adapt(one.replace("__host__ ", ""))
    by_macro = "#ifdef __CUDA_ARCH__\n#define G 1\n#endif\n__host__ __device__ int f() { return G; }"
    assert GUARD in adapt(by_macro)


def test_comments_and_strings_stay_unchanged():
    text = '// __CUDA_ARCH__\nconst char* s = "__CUDA_ARCH__"; /* __CUDA_ARCH__ */\n'
    assert adapt(text) == text
