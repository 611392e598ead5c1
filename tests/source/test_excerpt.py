"""The source line of an error, with a caret."""

import pytest

from tkjit.source.excerpt import with_excerpt

SOURCE = "int x;\n\tfloat y = undeclared + undeclared_too;\n"


@pytest.mark.parametrize(
    ("summary", "place"),
    [
        ("a.cu:2:12: error: 'undeclared' was not declared in this scope", 18),
        ("a.cu:2:30: error: \u2018undeclared_too\u2019 was not declared in this scope", 31),
        ("a.cu:2:7: error: expected ';'", 6),
        ("a.cu:2:700: error: expected ';'", 45),
    ],
)
def test_the_line_and_a_caret_are_added(summary, place):
    first, line, caret = with_excerpt(summary, SOURCE, ("/there/a.cu", "a.cu")).split("\n")
    assert first == summary and line == "          float y = undeclared + undeclared_too;"
    assert caret == "  " + " " * place + "^"


@pytest.mark.parametrize(
    "summary",
    [
        "other.h:2:12: error: no",
        "a.cu:7:12: error: no",
        "a.cu:0:1: error: no",
        "a.cu(2): error: no\n  line\n  ^",
        "the compiler failed without printing an error",
        "",
    ],
)
def test_other_errors_stay_unchanged(summary):
    assert with_excerpt(summary, SOURCE, ("a.cu",)) == summary
