"""Errors as HTML: the message, with the code marked where the compiler's caret points."""

import pytest

from tkjit.error_html import error_html, has_code

GCC = "a.cu:4:14: error: 'no' was not declared\n      g.y[i] = no<int> + g.x[i];\n               ^\n  compiling: f"
CLANG = "a.cu:4:14: error: bad operands\n    g.y[i] = a + b;\n             ~ ^ ~\n  compiling: f"
NVCC = 'a.cu(4): error: identifier "no" is undefined\n      g.y[i] = no;\n               ^\n  compiling: f'


@pytest.mark.parametrize(
    ("text", "marked"),
    [(GCC, "g.y[i] = <mark>no</mark>&lt;int&gt;"), (CLANG, "<mark>a + b</mark>;"), (NVCC, "<mark>no</mark>;")],
)
def test_the_place_of_each_compilers_caret_is_marked(text, marked):
    page = error_html("CompileError", text)
    assert has_code(text) and marked in page
    assert "^" not in page and "compiling: f" in page and "<details>" not in page


def test_the_log_is_folded_and_nothing_is_markup():
    page = error_html("CompileError", "f<T>: <b>", "log of f<T>")
    assert "f&lt;T&gt;: &lt;b&gt;" in page and "<details>" in page and "log of f&lt;T&gt;" in page
    assert not has_code("f<T>: <b>") and not has_code("^")


def test_a_caret_beyond_its_line_marks_nothing_more():
    assert "<mark></mark>" in error_html("CompileError", "a.cu:1:9: error: end\nint\n        ^")
