"""A header is preprocessed with and without ``__CUDA_ARCH__``; host functions keep their lines of the second text."""

from __future__ import annotations

import subprocess

import pytest

from tkjit.source.host_branches import with_host_branches, without_annotations

pytestmark = pytest.mark.compiles


def merged(tmp_path, text: str, **more: str) -> str:
    """Return the merged text of a file `a.cuh` and its includes, without line marks and empty lines."""
    for name, content in {"a": text, **more}.items():
        (tmp_path / f"{name}.cuh").write_text(content)

    def preprocessed(*defines: str) -> str:
        command = ["g++", "-E", *defines, "-x", "c++", "a.cuh"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    result = without_annotations(with_host_branches(preprocessed("-D__CUDA_ARCH__=900"), preprocessed()))
    return "\n".join(line.strip() for line in result.split("\n") if line.strip() and not line.startswith("# "))


BRANCHES = "\n#ifdef __CUDA_ARCH__\nreturn 1;\n#else\nreturn 2;\n#endif\n"
ASM = '\n#ifdef __CUDA_ARCH__\nint x; asm("mov.u32 %0, 1;" : "=r"(x)); return x;\n#else\nreturn 2;\n#endif\n'


@pytest.mark.parametrize(
    ("head", "value"),
    [
        ("int f()", 2),
        ("static inline int f()", 2),
        ("template <class T> int f(T x)", 2),
        ("struct S { int f() const noexcept", 2),
        ("namespace a::b { auto f() -> int", 2),
        ("struct S { int a; S() : a(1)", 2),
        ("__device__ int f()", 1),
        ("__global__ void f()", 1),
        ("#define ON_DEVICE __device__ inline\nON_DEVICE int f()", 1),
        ("__host__ __device__ int f()", 1),
        ("constexpr int f()", 1),
        ("void g() { auto f = [] __device__ ()", 1),
        ("void g() { auto f = [] ()", 2),
        ("void g() { if (true)", 2),
        ("struct __attribute__((aligned(16))) S { __device__ S()", 1),
    ],
)
def test_a_function_has_the_lines_of_the_side_that_runs_it(head, value, tmp_path):
    ends = "}" * (head.count("{") + 1) + ";"
    text = merged(tmp_path, f"{head} {{{BRANCHES}{ends}\nint after;\n")
    assert f"return {value};" in text and f"return {3 - value};" not in text and "int after;" in text


def test_a_host_device_function_with_inline_ptx_is_guarded_once(tmp_path):
    text = merged(tmp_path, f"__host__ __device__ int f() {{{ASM}{ASM}}}\n__host__ __device__ int g() {{{BRANCHES}}}")
    assert text.count("require_device();") == 1 and text.index("require_device();") < text.index("asm")


def test_braces_in_strings_and_characters_are_ignored(tmp_path):
    odd = 'const char* a = "}{\\"{"; char b = \'{\'; auto c = R"x({{{)" {)x"; int d = 1\'000;\n'
    text = merged(tmp_path, f"__device__ int g() {{ {odd} return 0; }}\nint f() {{ {odd} {BRANCHES} }}")
    assert "return 2;" in text and "return 1;" not in text


def test_outside_of_functions_the_declarations_of_both_texts_are_kept(tmp_path):
    device, host = (
        "#ifdef __CUDA_ARCH__\n__device__ int g();\n#endif\n",
        '#ifndef __CUDA_ARCH__\n#include "b.cuh"\n#endif\n',
    )
    text = merged(tmp_path, f"{device}int h;\n{host}int i;", b="int only_host();\n")
    assert text.split("\n") == ["int g();", "int h;", "int only_host();", "int i;"]


def test_the_indices_that_the_simulator_declares_are_not_declared_again(tmp_path):
    text = (
        "#ifndef __CUDA_ARCH__\nextern const dim3 blockDim;\nextern const uint3 threadIdx;\nint more;\n#endif\nint a;"
    )
    assert merged(tmp_path, text) == "int more;\nint a;"


def test_lines_keep_their_numbers(tmp_path):
    command = ["g++", "-fsyntax-only", "-x", "c++-cpp-output", "-"]
    (tmp_path / "a.cuh").write_text(f"int f() {{{BRANCHES}}}\nint g() {{ return unknown; }}\n")
    texts = [
        subprocess.run(["g++", "-E", *more, "a.cuh"], cwd=tmp_path, capture_output=True, text=True).stdout
        for more in (["-x", "c++", "-D__CUDA_ARCH__=900"], ["-x", "c++"])
    ]
    log = subprocess.run(command, input=with_host_branches(*texts), capture_output=True, text=True).stderr
    assert "a.cuh:8:" in log
