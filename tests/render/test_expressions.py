"""Expressions of a spec as C++: the value that Python computes, and no parentheses that C++ does not need."""

import pytest

from tkjit.render.expressions import render_expression
from tkjit.spec.expr import Expr


@pytest.mark.parametrize(
    "text, cpp",
    [
        ("N", "N"),
        ("x.rows + 1", "x.rows + 1"),
        ("N // 2 + 1", "N / 2 + 1"),
        ("(N + 1) // 2", "(N + 1) / 2"),
        ("N * (M * K)", "N * (M * K)"),
        ("N - M - K", "N - M - K"),
        ("N - (M - K)", "N - (M - K)"),
        ("N // M * K % 3", "N / M * K % 3"),
        ("-N % 4", "-N % 4"),
        ("-(N * M)", "-(N * M)"),
        ("-(-N)", "-(-N)"),
        ("N - -M", "N - -M"),
        ("+N", "N"),
        ("cdiv(M + 1, 128) * min(N, (K * 2), 3)", "cdiv(M + 1, 128) * min(N, K * 2, 3)"),
        ("N % 4 == 0", "N % 4 == 0"),
        ("(N < 4) * 2 + (M == (N > 3))", "(N < 4) * 2 + (M == (N > 3))"),
        ("1 <= N < 4", "min(1 <= N, N < 4)"),
        ("1 < 2 < N", "min(tkjit::Int(1) < 2, 2 < N)"),
        ("2 * 128 * 40", "10240"),
        ("-7 // 2", "-4"),
        ("N * (3 - 5)", "N * -2"),
        ("N - (3 - 5)", "N - -2"),
    ],
)
def test_expressions_have_only_necessary_parentheses(text, cpp):
    assert render_expression(Expr.parse(text), str) == cpp


def test_caller_decides_how_names_are_spelled():
    assert render_expression(Expr.parse("cdiv(x.rows, N)"), lambda name: f"<{name}>") == "cdiv(<x.rows>, <N>)"
