"""The ``%%tkjit`` cell: a Python function, and below it the CUDA source of its kernel."""

import ast

import pytest
import torch

import tkjit
from tkjit import CompileError, SpecError
from tkjit.notebook.cell import split_cell
from tkjit.notebook.proposal import entry_of, propose

RELU = '''%%tkjit
@tkjit.kernel(grid="cdiv(x.numel, 256)", block=256{options})
def relu(x: In[Tensor, "{dtype}", "..."], y: Out[Tensor, "{dtype}", "..."]) -> Tensor:
    """Computes max(x, 0)."""

    return x.relu()

{template}
__global__ void relu(const __grid_constant__ Globals g) {{
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < g.x.numel()) g.y[i] = {value};
}}
'''
PLAIN = RELU.format(options="", dtype="float32", template="", value="fmaxf(g.x[i], 0.f)")


@pytest.mark.compiles
def test_cell_defines_a_kernel(shell, run, session_cache):
    before = set(shell.user_ns)
    assert run(PLAIN) == ("", None)
    assert {name for name in set(shell.user_ns) - before if name[0] != "_"} == {"relu"}
    assert shell.user_ns["In"] != tkjit.In and isinstance(shell.user_ns["Out"], dict)  # still IPython's
    relu = shell.user_ns["relu"]
    x = torch.randn(3, 100)
    assert torch.equal(relu(x), x.relu()) and torch.equal(relu.reference(x), x.relu())
    assert relu.specs[0].doc == "Computes max(x, 0)."


@pytest.mark.compiles
def test_cell_with_a_template_and_variants(shell, run, session_cache):
    options = ', variants={"T": ("float32", "float64")}'
    cell = RELU.format(
        options=options, dtype="T", template="template <typename T>", value="g.x[i] > T(0) ? g.x[i] : T(0)"
    )
    assert run(cell) == ("", None)
    relu = shell.user_ns["relu"]
    assert relu.specs[0].entry == "relu<T>"
    assert torch.equal(relu(torch.ones(2).double()), torch.ones(2).double())


@pytest.mark.compiles
def test_compile_error_has_the_line_in_the_cell(shell, run, session_cache):
    run(PLAIN.replace("fmaxf", "fmaxg"))
    printed, error = run("import torch\nrelu(torch.ones(3))")
    assert isinstance(error, CompileError)
    assert error.summary.startswith("inline.cu:11:")
    assert PLAIN.split("\n")[10].replace("fmaxf", "fmaxg").strip() in error.summary
    assert "tkjit/" not in printed.partition("CompileError: ")[0]
    assert "----> 2 relu(torch.ones(3))" in printed


@pytest.mark.compiles
def test_build_option_compiles_immediately(shell, run, session_cache):
    cell = PLAIN.replace("%%tkjit", "%%tkjit --build").replace("relu", "relu_built")
    assert run(cell.replace("x.relu_built", "x.relu")) == ("", None)
    broken = cell.replace("fmaxf", "fmaxg").replace("x.relu_built", "x.relu")
    assert isinstance(run(broken)[1], CompileError)


def test_cell_leaves_the_users_variables_unchanged(shell, run):
    """The user's Tensor and Generator are torch's; in the spec they are tkjit's."""
    run("from torch import Generator, Tensor")
    assert run(PLAIN)[1] is None
    assert shell.user_ns["Tensor"] is torch.Tensor and shell.user_ns["Generator"] is torch.Generator


def test_cell_with_two_kernels(shell, run):
    cell = """%%tkjit
@tkjit.kernel(args=True, grid=1, block=1)
def one(x: InOut[Tensor, "float32", "N"]): ...

@tkjit.kernel(entry="second", args=True, grid=1, block=1)
def two(x: InOut[Tensor, "float32", "N"]): ...

__global__ void one(float* x) {}
__global__ void second(float* x) {}
"""
    assert run(cell)[1] is None
    assert [shell.user_ns[name].specs[0].entry for name in ("one", "two")] == ["one", "second"]


@pytest.mark.compiles
def test_cell_with_a_helper_for_the_gradient(shell, run, session_cache):
    cell = PLAIN.replace("%%tkjit\n", "%%tkjit\ndef down(grad_y, x):\n    return grad_y * (x > 0)\n\n")
    assert run(cell.replace("block=256", "block=256, backward=down"))[1] is None
    x = torch.randn(5, requires_grad=True)
    shell.user_ns["relu"](x).sum().backward()
    assert torch.equal(x.grad, (x > 0).float())


# ---- errors in cells


def test_cell_with_only_cuda_gets_a_proposed_function(shell, run):
    cuda = "__global__ void scale(const float* x, float* y, float a, int n) {}"
    printed, error = run(f"%%tkjit\n{cuda}\n")
    assert isinstance(error, SpecError)
    assert printed.startswith("SpecError: this cell needs a function above its CUDA")  # and no traceback
    proposed = str(error).partition("\n\n")[2]
    assert run(f"%%tkjit\n{proposed}\n\n{cuda}")[1] is None
    assert str(shell.user_ns["scale"].signature).startswith("(x: 'Tensor', y: 'Tensor', a: 'float', n: 'int'")


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%%tkjit --builds\nint x;", "unrecognized arguments: --builds"),
        ("%%tkjit 'a\nint x;", "No closing quotation"),
        ("%%tkjit\nint x;\n", "the cell has no __global__ function"),
        ("%%tkjit\ndef f(x): ...\n\n__global__ void f(Globals g) {}", "f has no decorator: write @tkjit.kernel"),
        (
            "%%tkjit\n#define N 3\n@tkjit.kernel()\ndef f(x): ...\n\nint y;",
            "line 2 of the cell, '#define N 3', is a comment",
        ),
        ("%%tkjit\n@tkjit.kernel(\ndef f(x): ...\n\n__global__ void f(int x) {}", "cannot be read: .*, line [23] of"),
        ("%%tkjit\nasync def f(x): ...\n\n__global__ void f(int x) {}", "no function in it defines a kernel"),
        (
            "%%tkjit\n@tkjit.kernel(grid=1, block=1)\ndef f(x: int): ...\n\n__global__ void a(int x) {}\n"
            "__global__ void b(int x) {}",
            r"f: the cell's source needs one __global__ function; it has a\(int x\), b\(int x\); choose one with",
        ),
        ("%%tkjit\n@tkjit.kernel(grid=1, block=1)\ndef f(x: int): ...\n\nint y;", "it has none"),
    ],
)
def test_invalid_cell(run, cell, message):
    printed, error = run(cell)
    with pytest.raises(SpecError, match=message):
        raise error
    assert "tkjit/notebook" not in printed


def test_error_in_the_function_has_its_line(run):
    printed, error = run(PLAIN.replace("block=256", 'block="q * 3"'))
    assert isinstance(error, SpecError)
    assert '----> 2 @tkjit.kernel(grid="cdiv(x.numel, 256)", block="q * 3")' in printed
    assert "File" not in printed  # the only frame is the cell's


# ---- parts of a cell


@pytest.mark.parametrize(
    ("cell", "functions"),
    [
        ("def f(): ...\n\nint x;", ["f"]),
        ("def f():\n    a\n\n    b\nint x;", ["f"]),
        ("N = 4\n@d\ndef f(): ...\n// x = 3\nint x;", ["f"]),
        ("def f(): ...\ndef g(): ...\n#include <a.h>\nint x;", ["f", "g"]),
        ("import torch\n\ndef f(\n    x,\n): ...\nint x;", ["f"]),
        ("int x;\ndef f(): ...", []),
        ("def f(): ...\n\n#define EXACT 1\n#ifdef EXACT\nint x;\n#endif\nint x;", ["f"]),
        ("def f(): ...\nDEFINE(float)\nint x;", ["f"]),
        ("x = " + "-" * 20_000 + "1\nint x;", []),
        ("", []),
    ],
)
def test_split_after_the_python_part(cell, functions):
    parts = split_cell(cell)
    assert [one.name for one in parts.head if isinstance(one, ast.FunctionDef)] == functions
    if functions:
        lines = ["%%tkjit", *cell.split("\n")]
        assert parts.source.split("\n")[lines.index("int x;")] == "int x;"
        for line in lines:
            assert not line.startswith(("#", "DEFINE")) or line in parts.source
        assert parts.source.strip().split("\n")[-1] == "int x;"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "__global__ void f(const half* x, nv_bfloat16 *y, long n) {}",
            ['"float16"', '"bfloat16"', 'Scalar[int, "int64_t"]'],
        ),
        ("template <typename T> __global__ void f(T* x, int n) {}", ['InOut[Tensor, "T", "..."]', 'variants={"T": (']),
        ("__global__ void f(Globals g) {}", ['x: In[Tensor, "float32", "..."]', "cdiv(x.numel, 256)"]),
        ("__global__ void f() {}", ["def f(): ...", "cdiv(1, 256)"]),
        ("__global__ void f(double const* __restrict__ x) {}", ['x: In[Tensor, "float64", "..."]']),
    ],
)
def test_proposed_function(source, expected):
    proposed = propose(source)
    assert [one for one in expected if one not in proposed] == []
    ast.parse(proposed)


def test_choice_of_the_entry():
    assert entry_of("__global__ void a(int x) {} __global__ void b(int x) {}", "b") == "b"
    assert entry_of("template <typename T, int N = 3> __global__ void a(T x) {}", "f") == "a<T>"
