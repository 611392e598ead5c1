"""The expression language: its syntax, the errors, and that it computes the same values as Python."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tkjit import ShapeError, SpecError
from tkjit.spec.expr import EXTENTS, INT64_MAX, INT64_MIN, Expr, parse_list

INTEGERS = st.integers(INT64_MIN, INT64_MAX)


@pytest.mark.parametrize(
    "text, values, result",
    [
        ("7", {}, 7),
        ("  N ", {"N": 3}, 3),
        ("-N + +M", {"N": 3, "M": 5}, 2),
        ("2 + 3 * 4 - 1", {}, 13),
        ("(2 + 3) * 4", {}, 20),
        ("7 // 2", {}, 3),
        ("-7 // 2", {}, -4),
        ("-7 % 3", {}, 2),
        ("7 % -3", {}, -2),
        ("min(N, 4, 9)", {"N": 5}, 4),
        ("max(N, 4)", {"N": 5}, 5),
        ("cdiv(N, 256)", {"N": 257}, 2),
        ("cdiv(-7, 2)", {}, -3),
        ("N < 4", {"N": 3}, 1),
        ("N >= 4", {"N": 3}, 0),
        ("1 <= N != 2", {"N": 2}, 0),
        ("1 < 2 < 3", {}, 1),
        ("x.rows * x.cols", {"x.rows": 2, "x.cols": 3}, 6),
        (str(INT64_MAX), {}, INT64_MAX),
        ("-9223372036854775807 - 1", {}, INT64_MIN),
    ],
)
def test_evaluation(text, values, result):
    assert Expr.parse(text).evaluate(values) == result


@pytest.mark.parametrize(
    "text",
    [
        *("N / 2", "1.5", "N + 0.5", "1e3", "2j", "True", "None", "'N'", "...", "N ** 2", "N << 1", "N & 1", "~N"),
        *("not N", "N and M", "N if M else 1", "[N]", "(N, M)", "N[0]", "lambda: 1", "(n := 3)", "N in M", "N is M"),
        *("abs(N)", "cdiv(N)", "cdiv(N, 2, 3)", "min(N)", "min()", "max(*N)", "min(N, key=M)", "min(N, M)(1)"),
        *("min(" + ", ".join("N" * 9) + ")", str(2**63), "N + 99999999999999999999"),
        *("x.shape", "x.rows.cols", "x.numel()", "(x + y).rows", "x.__class__"),
        *("", "N +", "N M", "N; M", "import os", "N\nM", "N\0"),
    ],
)
def test_constructs_outside_the_language_are_rejected(text):
    with pytest.raises(SpecError) as caught:
        Expr.parse(text)
    assert repr(text.strip()) in str(caught.value)


def test_error_for_true_division_suggests_floor_division_or_cdiv():
    with pytest.raises(SpecError, match=r"'N / 2' is not in the expression language.*use // \(rounds down\) or cdiv"):
        Expr.parse("1 + N / 2")
    with pytest.raises(SpecError) as caught:
        Expr.parse("N ** 2")
    assert "cdiv (rounds up)" not in str(caught.value)


@pytest.mark.parametrize("extent", EXTENTS)
def test_padded_extents_of_a_tensor(extent):
    expr = Expr.parse(f"x.{extent} + 1")
    assert expr.names == {f"x.{extent}"}
    assert expr.evaluate({f"x.{extent}": 4}) == 5


def test_names_are_the_names_that_need_a_value():
    assert Expr.parse("min(N, cdiv(x.rows, 2)) + M % N").names == {"N", "M", "x.rows"}
    assert Expr.parse("3 + 4").names == frozenset()


@pytest.mark.parametrize("text", ["N // 0", "N % 0", "cdiv(N, 0)", "N // (M - M)"])
def test_division_by_zero_names_the_expression(text):
    with pytest.raises(ShapeError, match="division by zero") as caught:
        Expr.parse(text).evaluate({"N": 5, "M": 2})
    assert text in str(caught.value)


@pytest.mark.parametrize("text", ["N + 1", "N * 2", "N * N - N * N", "-M", "M - 1", "cdiv(M, -1)", "M // -1"])
def test_intermediate_value_over_64_bits_is_an_error(text):
    with pytest.raises(ShapeError, match="does not fit in 64 bits") as caught:
        Expr.parse(text).evaluate({"N": INT64_MAX, "M": INT64_MIN})
    assert text in str(caught.value)


def test_comparison_does_not_overflow():
    assert Expr.parse("N >= M").evaluate({"N": INT64_MAX, "M": INT64_MIN}) == 1


@pytest.mark.parametrize("operator", ["//", "%", "cdiv"])
@given(a=INTEGERS, b=INTEGERS.filter(bool))
@settings(deadline=None)
def test_division_rounds_as_in_python(operator, a, b):
    text = "cdiv(a, b)" if operator == "cdiv" else f"a {operator} b"
    expected = -(-a // b) if operator == "cdiv" else eval(text, {"a": a, "b": b})
    expr = Expr.parse(text)
    if INT64_MIN <= expected <= INT64_MAX and (operator != "cdiv" or a != INT64_MIN):
        assert expr.evaluate({"a": a, "b": b}) == expected
    elif operator != "cdiv":
        with pytest.raises(ShapeError):
            expr.evaluate({"a": a, "b": b})


SMALL = st.integers(-50, 50)
EXPRESSIONS = st.recursive(
    st.one_of(SMALL.map(str), st.sampled_from(["N", "M"])),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%", "<", "<=", "==", "!="]), inner).map(
            lambda parts: f"({' '.join(parts)})"
        ),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda p: f"{p[0]}({p[1]}, {p[2]})"),
    ),
    max_leaves=12,
)


@given(text=EXPRESSIONS, n=SMALL, m=SMALL)
@settings(deadline=None)
def test_any_expression_has_the_same_value_as_in_python(text, n, m):
    try:
        expected = int(eval(text, {"N": n, "M": m, "min": min, "max": max}))
    except ZeroDivisionError:
        with pytest.raises(ShapeError, match="division by zero"):
            Expr.parse(text).evaluate({"N": n, "M": m})
        return
    if abs(expected) <= INT64_MAX:
        assert Expr.parse(text).evaluate({"N": n, "M": m}) == expected


@pytest.mark.parametrize(
    "given, parts",
    [
        ("cdiv(N, 64), M", ["cdiv(N, 64)", "M"]),
        ("256", ["256"]),
        (256, ["256"]),
        ((16, "N"), ["16", "N"]),
        ("1, 2, 3", ["1", "2", "3"]),
        ("min(N, 2)", ["min(N, 2)"]),
    ],
)
def test_list_of_expressions(given, parts):
    assert [str(expr) for expr in parse_list(given)] == parts


@pytest.mark.parametrize("given", ["1, 2, 3, 4", (), (1, 2, 3, 4), "()"])
def test_lists_have_one_to_three_expressions(given):
    with pytest.raises(SpecError, match="one to three expressions"):
        parse_list(given)


def test_lists_reject_constructs_outside_the_language():
    with pytest.raises(SpecError, match=r"use //"):
        parse_list("N, M / 2")


def test_an_expression_is_a_value():
    assert Expr.parse("N+1") == Expr("N+1")
    assert len({Expr.parse("N"), Expr.parse(" N")}) == 1
    assert ast.literal_eval(repr(Expr.parse("N").text)) == "N"
