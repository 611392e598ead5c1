"""Explanations of missing members, undeclared names and other common errors."""

import pytest

from tkjit.source.members import why_no_member

DIMS = {"N": "g.x.cols()"}
SOURCE = "__global__ void a(const __grid_constant__ Globals g) {}\n"
LOGS = [
    "inline.cu:2:43: error: 'const struct Globals' has no member named 'z'; did you mean 'x'?",
    "inline.cu:2:43: error: no member named 'z' in 'Globals'",
    'inline.cu(2): error: class "Globals" has no member "z"',
]


@pytest.mark.parametrize("log", LOGS)
def test_a_missing_field_lists_the_fields_of_the_struct(log):
    assert why_no_member(SOURCE, "a", ["x", "y"], DIMS, log) == "Globals has no field z; it has x, y"


@pytest.mark.parametrize("log", LOGS)
def test_a_missing_field_in_a_source_with_two_kernels(log):
    other = "template <class T> __global__ void b(Globals g) {}\n__global__ void plain(float* x) {}\n"
    message = why_no_member(SOURCE + other, "a", ["x"], DIMS, log)
    assert message.endswith(
        "but the source also has b; put each kernel in its own file, or let both take plain arguments with args=True"
    )


@pytest.mark.parametrize(
    "log",
    [
        "a.cu:2:1: error: 'const struct tkjit::gl<float>' has no member named 'size'",
        'a.cu(2): error: class "tkjit::gl<float>" has no member "size"',
        "a.cu:2:1: error: no member named 'size' in 'tkjit::gl<float>'",
    ],
)
def test_a_missing_member_lists_the_members_of_a_global_layout(log):
    assert "has no size; it has rows() and cols()" in why_no_member(SOURCE, "a", ["x"], DIMS, log)


@pytest.mark.parametrize(
    "log",
    [
        "",
        "a.cu:2:1: error: 'struct Mine' has no member named 'size'",
        "a.cu:2:1: error: 'w' was not declared in this scope",
        "a.cu:2:1: error: expected ';'\na.cu:3:1: error: 'struct Globals' has no member named 'z'",
    ],
)
def test_other_errors_are_not_explained(log):
    assert why_no_member(SOURCE, "a", ["x"], DIMS, log) == ""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("x", "x is a field of the struct: g.x"),
        ("N", "N is a dim of the spec; read it from its tensor: g.x.cols()"),
        ("Globals", "leave args=True out"),
        ("TODO", "the spec still contains TODO"),
        ("__float2half", "#include <cuda_fp16.h>"),
        ("__nv_bfloat162", "#include <cuda_bf16.h>"),
        ("__shfl_down", "__shfl_down_sync(0xffffffff, ...)"),
        ("mine", ""),
    ],
)
@pytest.mark.parametrize(
    "log",
    [
        "a.cu:2:1: error: '{}' was not declared in this scope",
        "a.cu:2:1: error: '{}' does not name a type",
        "a.cu:2:1: error: use of undeclared identifier '{}'",
        "a.cu:2:1: error: unknown type name '{}'",
        'a.cu(2): error: identifier "{}" is undefined',
    ],
)
def test_an_undeclared_name_is_explained(log, name, expected):
    assert expected in (reason := why_no_member(SOURCE, "a", ["x"], DIMS, log.format(name))) and bool(reason) == bool(
        expected
    )


@pytest.mark.parametrize(
    ("source", "log", "expected"),
    [
        (
            "struct Globals {};\n__global__ void a(Globals g) {}",
            "a.cu:1:8: error: redefinition of 'struct Globals'",
            "the source defines Globals, which tkjit renders; remove it, "
            'or use the source\'s own with struct="Globals"',
        ),
        (
            "__global__ void a(Params g) {}",
            "a.cu:1:17: error: variable or field 'a' declared void\n"
            "a.cu:1:17: error: 'Params' was not declared in this scope",
            "the struct that tkjit renders is called Globals, not Params",
        ),
        (
            SOURCE,
            "a.cu:1:45: error: ambiguous overload for 'operator*' (operand types are 'float' and '__nv_bfloat16')",
            "convert a 16-bit number before computing with it: float(g.x[i])",
        ),
    ],
)
def test_errors_about_the_struct_and_its_elements(source, log, expected):
    assert why_no_member(source, "a", ["x"], DIMS, log) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("alpa", "Globals has no field alpa; it has x, alpha; did you mean g.alpha?"),
        ("N", 'N is a dim, not a field; read it from a tensor, g.x.cols(), or add computed={"N": "N"}'),
    ],
)
def test_a_missing_field_gets_a_suggestion(name, expected):
    log = f"a.cu:1:1: error: 'const struct Globals' has no member named '{name}'"
    assert why_no_member(SOURCE, "a", ["x", "alpha"], DIMS, log) == expected


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("a.cu:4:22: error: storage size of 'red' isn't constant", "an array's size must be"),
        ("a.cu(2): error: a variable length array cannot have static storage duration", "an array's size must be"),
        ("a.cu:2:9: error: variable length array declaration cannot have 'static' storage duration", "an array's size"),
        ("a.cu:3:5: error: expected ',' or ';' before 'if'", "a semicolon is missing"),
        ("a.cu:3:5: error: expected ';' at end of declaration", "a semicolon is missing"),
        ('a.cu(3): error: expected a ";"', "a semicolon is missing"),
        ("a.cu(3): error: expression must have a constant value", ""),
        ("a.cu:9:33: error: \u2018g\u2019 is not a constant expression", "a value that the compiler must know has"),
        ("a.cu:3:1: error: stray \u2018#\u2019 in program", "a comment in CUDA begins with //"),
        ('a.cu:5:24: error: missing terminating " character', "a string literal contains a line break"),
        (
            "a.cu:5:9: error: call of overloaded \u2018max(float&, int)\u2019 is ambiguous",
            "the arguments must have the same type",
        ),
        (
            "a.cu:9:6: error: no match for call to \u2018(const tkjit::gl<float, 1>) (int, int, int)\u2019",
            "index a layout",
        ),
        (
            "a.cu:3:5: error: return-statement with a value, in function returning 'void'",
            "a void function",
        ),
        ("a.cu:3:5: error: no match for 'operator*' (operand types are 'uint3' and 'int')", "blockIdx, threadIdx"),
        ("a.cu:3:5: error: expected ')' before ';' token", ""),
        ("a.cu:3:5: error: missing terminating ' character", ""),
        ("a.cu:3:5: error: 'i' is not a constant expression", ""),
        ("a.cu(3): error: return value type does not match the function type", ""),
    ],
)
def test_common_errors_are_explained(log, expected):
    assert (found := why_no_member(SOURCE, "a", ["x"], DIMS, log)).startswith(expected) and bool(found) == bool(
        expected
    )
