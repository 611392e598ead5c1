"""Mistakes in sources that compilers accept."""

import pytest

from tkjit.source.lint import Passed, find_mistake

KERNEL = "__global__ void f(Globals g) {{ {} }}"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("g.x[i, j] = 1;", "because C++ discards what precedes a comma; .x(i, j) has two"),
        ("y = g.x[f(1, 2), j + h(3, 4)];", ".x(f(1, 2), j + h(3, 4)) has several"),
        ("g . x [ a , b ] = 1;", "has two"),
        ("y = g.x[i + 1][j];", ".x[i + 1][j]: a layout has one index in square brackets; .x(i + 1, j) has two"),
    ],
)
def test_several_indices_in_square_brackets_are_found(body, expected):
    line, text = find_mistake("\n" + KERNEL.format(body), "f", Passed(["x"]))
    assert line == 2 and expected in text


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
def test_other_commas_are_accepted(body):
    assert find_mistake(KERNEL.format(body + "\n"), "f", Passed(["x"])) is None


@pytest.mark.parametrize("head", ["void", "__device__ void", "static inline void", "template <class T> void"])
def test_an_entry_without_global_is_found(head):
    line, text = find_mistake(f"int y;\n{head} f(const Globals g) {{}}", "f<T>", Passed(["x"]))
    assert (line, text) == (2, "f(const Globals g) is not a kernel; write __global__ before it")


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
def test_possible_kernels_are_accepted(source):
    assert find_mistake(source, "f", Passed(["x"])) is None


def test_arguments_in_another_order_are_found():
    source = "\n__global__ void k(int n, const float* x, float* __restrict__ y) {}"
    line, message = find_mistake(source, "k", Passed(arguments=["n", "y", "x"]))
    assert line == 2 and message.endswith('the spec passes n, y, x; fields="n x y" is the kernel\'s order')
    assert find_mistake(source, "k", Passed(arguments=["n", "x", "y"])) is None
    assert find_mistake(source, "k", Passed(arguments=["n", "b", "a"])) is None  # other names: their order is unknown


@pytest.mark.parametrize(
    "body",
    ["g.x[i] = 1;", "g.x[g.y[i]] += 1;", "g.x(i, j) <<= 1;", "if (a == b) g.x[0]++;"],
)
def test_a_write_to_an_in_is_found(body):
    found = find_mistake(KERNEL.format(body), "f", Passed(["x", "y"], ["x", "y"]))
    assert found[1] == "the kernel writes to .x, but x is In; declare it InOut if the kernel also reads it, else Out"
    assert find_mistake(KERNEL.format(body), "f", Passed(["x", "y"], ["y"])) is None


@pytest.mark.parametrize(
    "body", ["a = g.x[i] == 1;", "if (g.x[i] <= 1) {}", "a = g.x[i] - b;", "t.x[i] = 1;", "x[0] = 1;"]
)
def test_reads_of_an_in_are_accepted(body):
    assert find_mistake(KERNEL.format(body), "f", Passed(["x"], ["x"])) is None


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("__global__ void f(Globals g) {\n extern __shared__ float tile[]; }", 2),
        ("extern __shared__ __align__(16) float tile[];\n__global__ void f(Globals g) { tile[0] = 1; }", 1),
        ("template <int N> __global__ void f(Globals g) { extern __shared__ alignas(128) int tile[]; }", 1),
        ("__global__ void h() {} __global__ void f(Globals g) { extern __shared__ char tile[]; }", 1),
    ],
)
def test_dynamic_shared_memory_without_a_size_is_found(source, line):
    found = find_mistake(source, "f", Passed(shared_memory=False))
    assert found[0] == line
    assert found[1].startswith("tile is dynamic shared memory, of which the launch has 0 bytes; set its size")
    assert find_mistake(source, "f", Passed(shared_memory=True)) is None


@pytest.mark.parametrize(
    "source",
    [
        "__global__ void h() { extern __shared__ float tile[]; } __global__ void f(Globals g) {}",
        "extern __shared__ float tile[]; __global__ void h() { tile[0] = 1; } __global__ void f(Globals g) {}",
        "__global__ void f(Globals g) { __shared__ float tile[4]; } extern int n;",
        "// extern __shared__ float tile[];\n__global__ void f(Globals g) {}",
    ],
)
def test_shared_memory_that_the_entry_does_not_use_is_accepted(source):
    assert find_mistake(source, "f", Passed(shared_memory=False)) is None


@pytest.mark.parametrize(
    "source",
    [
        "__global__ void f(Globals g) { g.y[0] = g.x[0]; } __global__ void back(Globals g) { g.x[0] = g.y[0]; }",
        "struct Tile { float x[4]; }; __device__ void fill(Tile& g) { g.x[0] = 0; } __global__ void f(Globals g) {}",
        "__global__ void f(OtherGlobals g) { g.x[0] = 1; }",
        "__global__ void f(Globals g) { { Tile g; g.x[0] = 1; } }",
        "__global__ void f(Globals g) { w.g.x[0] = 1; }",
        "__global__ void f(Globals g) {\n#if 0\ng.x[0] = 1;\n#endif\n}",
        "__global__ void f(Globals g) {\n#ifdef IN_PLACE\ng.x[0] = 1;\n#else\ng.y[0] = 1;\n#endif\n}",
    ],
)
def test_writes_in_other_kernels_or_structs_are_accepted(source):
    assert find_mistake(source, "f", Passed(["x", "y"], ["x"])) is None


@pytest.mark.parametrize(
    "source",
    [
        "__global__ void h(float* p, float f) { extern __shared__ float t[]; } __global__ void f(Globals g) {}",
        "extern __shared__ float t[]; __global__ void f(Globals g) { __shared__ float t[2]; t[0] = 1; }",
        "__global__ void f(Globals g) {\n#ifdef BIG\nextern __shared__ float t[];\n#endif\n}",
        "__device__ void f() { extern __shared__ int t[]; } namespace n { __global__ void f(Globals g) {} }",
    ],
)
def test_shared_memory_of_other_functions_is_accepted(source):
    assert find_mistake(source, "n::f" if "namespace n" in source else "f", Passed(shared_memory=False)) is None


@pytest.mark.parametrize("size", ["g.x.numel()", "blockDim.x", "2 * g . x . rows ()", "gridDim.y + 1"])
def test_an_array_of_run_time_size_is_found(size):
    line, text = find_mistake("\n" + KERNEL.format(f"float buf[{size}]; buf[0] = 1;"), "f", Passed(["x"]))
    assert line == 2 and text.startswith(f"buf[{size}]: the size of an array must be constant in CUDA")


@pytest.mark.parametrize(
    "body",
    [
        "constexpr int rows = 4; float acc[rows];",
        "float acc[Tile::cols * Tile::rows];",
        "const float w[extent] = {1}; float b[batch];",
        "if (a) s[0] = 1; else s[blockDim.x - 1] = 2;",
        "if (p and p[g.x.numel() - 1] > 0) return;",
        "extern __shared__ float tile[]; tile[blockDim.x - 1] = 1;",
        "__shared__ float tile[blockDim.x];",
        "// float buf[g.x.numel()];",
        "return s[blockDim.x];",
    ],
)
def test_other_arrays_are_accepted(body):
    assert find_mistake(KERNEL.format(body), "f", Passed(["x"])) is None
