"""Mistakes that compilers take."""

import pytest

from tkjit.source.silent import silent_mistake

KERNEL = "__global__ void f(Globals g) {{ {} }}"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("g.x[i, j] = 1;", ".x[i, j] has one index, the last, as C++ reads a comma; .x(i, j) has two"),
        ("y = g.x[f(1, 2), j + h(3, 4)];", ".x(f(1, 2), j + h(3, 4)) has several"),
        ("g . x [ a , b ] = 1;", "has two"),
        ("y = g.x[i + 1][j];", ".x[i + 1][j]: a layout has one index in square brackets; .x(i + 1, j) has two"),
    ],
)
def test_two_indices_in_square_brackets(body, said):
    line, text = silent_mistake("\n" + KERNEL.format(body), "f", ["x"])
    assert line == 2 and said in text


@pytest.mark.parametrize(
    "body",
    [
        "g.x[max(i, j)] = 1;",
        "tile.x[i][j] = 1;",
        "tile.x[i, j] = 1;",
        "g.x[{1, 2}] = 1;",
        "g.w[i, j] = 1;",
        "// g.x[i, j]",
        '"g.x[i, j]";',
        "x[i, j];",
        "g.x(i, j);",
    ],
)
def test_other_commas(body):
    assert silent_mistake(KERNEL.format(body + "\n"), "f", ["x"]) is None


@pytest.mark.parametrize("head", ["void", "__device__ void", "static inline void", "template <class T> void"])
def test_a_function_that_is_no_kernel(head):
    line, text = silent_mistake(f"int y;\n{head} f(const Globals g) {{}}", "f<T>", ["x"])
    assert (line, text) == (2, "f(const Globals g) is no kernel: write __global__ before it")


@pytest.mark.parametrize(
    "source",
    [
        KERNEL.format(""),
        "template <class T>\n__global__ __launch_bounds__(32) void f(T x) {}",
        "namespace a { __global__ void f(int x) {} }",
        "#define KERNEL __global__ void\nKERNEL f(int x) {}",
        "__global__\nvoid\nf(int x) {}",
        '#include "f.cuh"\n',
        "void other() {}",
        "struct S { void f(int x) {} };",
        "void f(int x);",
    ],
)
def test_what_may_be_a_kernel(source):
    assert silent_mistake(source, "f", ["x"]) is None


def test_arguments_in_another_order():
    source = "\n__global__ void k(int n, const float* x, float* __restrict__ y) {}"
    line, said = silent_mistake(source, "k", [], ["n", "y", "x"])
    assert line == 2 and said.endswith('the spec passes n, y, x; fields="n x y" is the kernel\'s order')
    assert silent_mistake(source, "k", [], ["n", "x", "y"]) is None
    assert silent_mistake(source, "k", [], ["n", "b", "a"]) is None  # other names: nobody knows
