"""Specs that contradict themselves are rejected, and the error names the contradiction."""

from typing import Any

import pytest
from support.specs import F32, by_hand, field, refusal

from tkjit.spec import Field
from tkjit.spec.expr import Expr


def test_plain_spec_is_accepted():
    assert by_hand(field()).name == "scale"


CONTRADICTIONS: dict[str, tuple[list[Field], dict[str, Any], str]] = {
    "duplicate field": ([field(), field()], {"order": ("x",)}, "the field x is defined twice"),
    "unknown dtype": ([field("x", "in", "float31", "N")], {}, "x: unknown dtype 'float31'; "),
    "unknown dtype next to variants": (
        [field("x", "in", "T"), field("y", "in", "U")],
        {"variants": (("T", (F32,)),)},
        "y: unknown dtype 'U'; ",
    ),
    "unknown dtype option": (
        [field("x", "in", "T")],
        {"variants": (("T", (F32, "half")),)},
        "variants['T']: unknown dtype 'half'; did you mean \"float16\"? known are bool",
    ),
    "unknown scalar type": (
        [field(), Field("n", "scalar", "long")],
        {},
        "n: unknown scalar type 'long'; known are bool, float",
    ),
    "undefined dim of an output": (
        [field("x", "in", F32, "N"), field("y", "out", F32, "N", "Q")],
        {},
        "y's dims: undefined dim Q in 'Q'; defined are N",
    ),
    "undefined dim of an input": (
        [field("x", "in", F32, "N + Q")],
        {},
        "x's dims: undefined dim N in 'N + Q'; defined are none; to compute it from other dims, add dims={\"N\": ...}",
    ),
    "a multiple of a dim": (
        [field("x", "in", F32, "2 * D")],
        {},
        'undefined dim D in \'2 * D\'; defined are none; name the whole dim "D_all", and add dims={"D": "D_all // 2"}',
    ),
    "misspelled dim": (
        [field("x", "in", F32, "rows")],
        {"grid": (Expr("cdiv(row, 2)"),)},
        "grid: undefined dim row in 'cdiv(row, 2)'; defined are rows; did you mean rows?",
    ),
    "undefined dim in grid": ([field()], {"grid": (Expr("cdiv(Q, 2)"),)}, "grid: undefined dim Q in 'cdiv(Q, 2)'"),
    "undefined dim in block": ([field()], {"block": (Expr("Q"),)}, "block: undefined dim Q"),
    "undefined dim in shared memory": ([field()], {"shared_memory": Expr("Q")}, "shared_memory: undefined dim Q"),
    "undefined dim in constraint": ([field()], {"constraints": (Expr("Q < 1"),)}, "constraints: undefined dim Q"),
    "undefined dim in dims": ([field()], {"derived": (("P", Expr("Q")),)}, "dims['P']: undefined dim Q"),
    "a float in an expression": (
        [field("x", "in", F32, "N"), Field("alpha", "scalar", "float")],
        {"grid": (Expr("alpha"),)},
        "grid: undefined dim alpha in 'alpha'; defined are N",
    ),
    "an output's extents": (
        [field("x", "in", F32, "N"), field("y", "out", F32, "N")],
        {"grid": (Expr("y.rows"),)},
        "grid: undefined dim y.rows",
    ),
    "extents of an unknown tensor": ([field()], {"grid": (Expr("z.rows"),)}, "grid: undefined dim z.rows"),
    "circular shape": (
        [field("x", "in", F32, "N"), field("y", "out", F32, "P")],
        {"derived": (("P", Expr("Q + 1")), ("Q", Expr("P + N")))},
        "circular shape: ",
    ),
    "dim that depends on itself": ([field()], {"derived": (("P", Expr("P + 1")),)}, "circular shape: P -> P"),
    "a dim bound twice": (
        [field("x", "in", F32, "N")],
        {"derived": (("N", Expr("3")),)},
        "dims['N'] is already bound by an argument",
    ),
    "negative dim": ([field("x", "in", F32, "N", "-1")], {}, "x: the dim -1 is negative"),
    "negative dim that is computed": ([field("x", "in", F32, "3 - 5")], {}, "x: the dim 3 - 5 is negative"),
    "a dim without a value": ([field("x", "in", F32, "1 // 0")], {}, "x"),
    "too many dims": ([field("x", "in", F32, *"ABCDE")], {}, "x has 5 dims; a global layout has at most 4"),
    "leading dims of an output alone": (
        [field("x", "in", F32, "N"), field("y", "out", F32, "N", leading=True)],
        {},
        "y: no input has leading dims '...', so those of y are unknown",
    ),
    "C++ keyword as field": ([field("template")], {}, "the name template cannot be used in C++"),
    "C++ keyword as dim": ([field("x", "in", F32, "double")], {}, "the name double cannot be used in C++"),
    "C++ keyword as variant": (
        [field("x", "in", "auto")],
        {"variants": (("auto", (F32,)),)},
        "the name auto cannot be used in C++",
    ),
    "C++ keyword as derived dim": ([field()], {"derived": (("int", Expr("3")),)}, "the name int cannot be used in C++"),
    "name outside ASCII": ([field("größe")], {}, "the name größe cannot be used in C++"),
    **{
        f"reserved field {name}": ([field(name)], {}, f"a field cannot be named {name}: ")
        for name in ("out", "stream", "self", "Globals", "min", "max", "cdiv", "tkjit_x")
    },
    **{
        f"reserved dim {name}": ([field("x", "in", F32, name)], {"grid": (Expr(f"min({name}, 3)"),)}, name)
        for name in ("Globals", "min", "max", "cdiv", "tkjit_x")
    },
    **{
        f"{name} as field": ([field(name)], {}, f"{name} is a C macro, and cannot be the name of a member")
        for name in ("NULL", "EOF", "errno", "linux")
    },
    **{
        f"{name} as dim": ([field("x", "in", F32, name)], {}, f"{name} is reserved for compilers and for tkjit's own")
        for name in ("__x", "_X", "TKJIT_EXPORT")
    },
    "a macro as computed member": ([field()], {"computed": (("stdin", Expr("N")),)}, "stdin is a C macro"),
    "a macro as variant": ([field("x", "in", "NAN")], {"variants": (("NAN", (F32,)),)}, "NAN is a C macro"),
    "a tensor that is a dim": (
        [field("x", "in", F32, "y"), field("y", "in", F32, "N")],
        {},
        "y names both a tensor and a dim or variant",
    ),
    "a dim that is a dtype variant": ([field("x", "in", "T", "T")], {"variants": (("T", (F32,)),)}, "T"),
    "a derived dim that is a dtype variant": (
        [field("x", "in", "T")],
        {"variants": (("T", (F32,)),), "derived": (("T", Expr("3")),)},
        "T",
    ),
    "a dim that is a float": ([field("x", "in", F32, "alpha"), Field("alpha", "scalar", "float")], {}, "alpha"),
    "a derived dim that is a float": (
        [field(), Field("alpha", "scalar", "float")],
        {"derived": (("alpha", Expr("3")),)},
        "alpha",
    ),
    "order names a field twice": (
        [field("x"), field("y")],
        {"order": ("x", "y", "x")},
        "fields='x y x' names a field twice",
    ),
    "order without one field": (
        [field("x"), field("y")],
        {"order": ("x",)},
        "fields='x' must name each parameter once: x, y",
    ),
    "order names an unknown field": (
        [field("x")],
        {"order": ("x", "z")},
        "fields='x z' must name each parameter once: x",
    ),
    "no options": (
        [field("x", "in", "T")],
        {"variants": (("T", ()),)},
        "variants['T'] is (); expected dtype names, integers",
    ),
    "mixed options": ([field("x", "in", "T")], {"variants": (("T", (F32, 3)),)}, "variants['T'] is ('float32', 3)"),
    "options of an unsupported type": (
        [field("x", "in", "T")],
        {"variants": (("T", (1.5,)),)},
        "variants['T'] is (1.5,)",
    ),
    "option twice": (
        [field("x", "in", "T")],
        {"variants": (("T", (F32, F32)),)},
        "variants['T'] names an option twice",
    ),
    "a field that is a dtype variant": (
        [field("x", "in", "n"), Field("n", "scalar", "int")],
        {"variants": (("n", (F32,)),)},
        "n is a field and a variant with string options; annotate it as a str",
    ),
    "a type variant that nothing binds": (
        [field("x", "in", F32)],
        {"variants": (("T", (F32,)),)},
        "no required tensor argument has the dtype T, so a call cannot choose its variant",
    ),
    "a type variant bound by an output": (
        [field("x", "in", F32, "N"), field("y", "out", "T", "N")],
        {"variants": (("T", (F32,)),)},
        "no required tensor argument has the dtype T",
    ),
    "a type variant bound by an optional tensor": (
        [field("x", "in", F32), field("y", "in", "T", optional=True)],
        {"variants": (("T", (F32,)),)},
        "no required tensor argument has the dtype T",
    ),
    "an integer variant that nothing binds": (
        [field("x", "in", F32, "N")],
        {"variants": (("D", (64, 128)),)},
        "no dim and no integer parameter is named D, so a call cannot choose its variant",
    ),
    "no tensor": (
        [Field("n", "scalar", "int")],
        {},
        "no required tensor argument and no torch.device, so a call cannot choose the device",
    ),
    "only optional tensors": ([field(optional=True)], {}, "no required tensor argument"),
    "only outputs": ([field("y", "out", F32, "3")], {}, "no required tensor argument"),
    "33 results": (
        [field(), *(field(f"y{i}", "inout", F32, "3") for i in range(33))],
        {"returns": tuple(f"y{i}" for i in range(33))},
        "a call would return 33 tensors; the maximum is 32",
    ),
    "no grid": ([field()], {"grid": ()}, "grid is missing, as in "),
    "no block": ([field()], {"block": ()}, "block is missing, as in "),
    "no grid for plain arguments": ([field()], {"grid": (), "args": True}, "grid is missing"),
    "args with struct": (
        [field()],
        {"args": True, "struct": "globals"},
        "args=True passes plain arguments, struct= a globals struct; use only one of them",
    ),
    "host with grid": ([field()], {"host": True, "block": ()}, "a host function does its own launches: grid, block"),
    "host with block": ([field()], {"host": True, "grid": ()}, "a host function does its own launches"),
    "host with shared memory": (
        [field()],
        {"host": True, "grid": (), "block": (), "shared_memory": Expr("3")},
        "a host function does its own launches",
    ),
    "no entry": ([field()], {"entry": "  "}, "entry is empty; expected the name of a __global__ function"),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_contradictory_spec_is_rejected(case):
    fields, changes, message = CONTRADICTIONS[case]
    text = refusal(lambda: by_hand(*fields, **changes))
    assert text.startswith("scale: ")
    assert message in text


def test_name_must_be_an_identifier():
    assert refusal(lambda: by_hand(field(), name="a b")) == "a b: the kernel's name 'a b' is not an identifier"


def test_error_shows_the_whole_circle():
    derived = (("P", Expr("Q")), ("Q", Expr("R")), ("R", Expr("P")))
    text = refusal(lambda: by_hand(field(), derived=derived))
    names = text.removeprefix("scale: circular shape: ").split(" -> ")
    assert names[0] == names[-1] and set(names) == {"P", "Q", "R"} and len(names) == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"grid": (), "block": (), "struct": "globals"},
        {"grid": (), "block": (), "host": True},
        {"args": True},
        {"derived": (("P", Expr("Q")), ("Q", Expr("2")))},
    ],
)
def test_specs_that_only_look_contradictory_are_accepted(changes):
    assert by_hand(field(), **changes)


def test_dim_can_be_an_integer_argument():
    spec = by_hand(field("x", "in", F32, "n"), Field("n", "scalar", "int"), grid=(Expr("n"),))
    assert spec.dim_names == ("n",)
