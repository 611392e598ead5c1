"""A member that is not there: the members that are."""

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
def test_the_fields_of_the_struct(log):
    assert why_no_member(SOURCE, "a", ["x", "y"], DIMS, log) == "Globals has no field z; it has x, y"


@pytest.mark.parametrize("log", LOGS)
def test_a_source_of_two_kernels(log):
    other = "template <class T> __global__ void b(Globals g) {}\n__global__ void plain(float* x) {}\n"
    said = why_no_member(SOURCE + other, "a", ["x"], DIMS, log)
    assert said.endswith("and the source has b too: give each a file")


@pytest.mark.parametrize(
    "log",
    [
        "a.cu:2:1: error: 'const struct tkjit::gl<float>' has no member named 'size'",
        'a.cu(2): error: class "tkjit::gl<float>" has no member "size"',
        "a.cu:2:1: error: no member named 'size' in 'tkjit::gl<float>'",
    ],
)
def test_the_members_of_a_global_layout(log):
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
def test_other_errors(log):
    assert why_no_member(SOURCE, "a", ["x"], DIMS, log) == ""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("x", "x is a field of the struct: g.x"),
        ("N", "N is a dim of the spec; a kernel asks its tensor for it: g.x.cols()"),
        ("Globals", "leave args=True out"),
        ("TODO", "the spec still says TODO"),
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
def test_an_undeclared_name(log, name, said):
    assert said in (reason := why_no_member(SOURCE, "a", ["x"], DIMS, log.format(name))) and bool(reason) == bool(said)


@pytest.mark.parametrize(
    ("source", "log", "said"),
    [
        (
            "struct Globals {};\n__global__ void a(Globals g) {}",
            "a.cu:1:8: error: redefinition of 'struct Globals'",
            "the source defines Globals, which tkjit renders: leave it out, "
            'or take the source\'s own, struct="Globals"',
        ),
        (
            "__global__ void a(Params g) {}",
            "a.cu:1:17: error: variable or field 'a' declared void\n"
            "a.cu:1:17: error: 'Params' was not declared in this scope",
            "the struct that tkjit renders is called Globals, and not Params",
        ),
        (
            SOURCE,
            "a.cu:1:45: error: ambiguous overload for 'operator*' (operand types are 'float' and '__nv_bfloat16')",
            "a number of 16 bits is converted before it is computed with: float(g.x[i])",
        ),
    ],
)
def test_the_struct_and_its_elements(source, log, said):
    assert why_no_member(source, "a", ["x"], DIMS, log) == said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("alpa", "Globals has no field alpa; it has x, alpha; did you mean g.alpha?"),
        ("N", 'N is a dim and no field: a tensor has it, g.x.cols(), or computed={"N": "N"}'),
    ],
)
def test_a_field_that_is_nearly_there(name, said):
    log = f"a.cu:1:1: error: 'const struct Globals' has no member named '{name}'"
    assert why_no_member(SOURCE, "a", ["x", "alpha"], DIMS, log) == said


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("a.cu:4:22: error: storage size of 'red' isn't constant", "an array's size is a number"),
        ("a.cu(2): error: a variable length array cannot have static storage duration", "an array's size is a number"),
        ("a.cu:2:9: error: variable length array declaration cannot have 'static' storage duration", "an array's size"),
        ("a.cu:3:5: error: expected ',' or ';' before 'if'", "a semicolon is missing"),
        ("a.cu:3:5: error: expected ';' at end of declaration", "a semicolon is missing"),
        ('a.cu(3): error: expected a ";"', "a semicolon is missing"),
        ("a.cu(3): error: expression must have a constant value", ""),
        ("a.cu:9:33: error: \u2018g\u2019 is not a constant expression", "what the compiler has to know is a variant"),
        ("a.cu:3:1: error: stray \u2018#\u2019 in program", "a comment in CUDA begins with //"),
        ('a.cu:5:24: error: missing terminating " character', "a text has a line break in it"),
        (
            "a.cu:5:9: error: call of overloaded \u2018max(float&, int)\u2019 is ambiguous",
            "the numbers have to be of one type",
        ),
        (
            "a.cu:9:6: error: no match for call to \u2018(const tkjit::gl<float, 1>) (int, int, int)\u2019",
            "a layout is indexed",
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
def test_common_errors(log, said):
    assert (found := why_no_member(SOURCE, "a", ["x"], DIMS, log)).startswith(said) and bool(found) == bool(said)
