"""Completion of kernel names and arguments."""

import pytest
from IPython.core.completer import provisionalcompleter

import tkjit
from tkjit.notebook.completion import completions

AXPY = {"axpy": tkjit.find("axpy"), "f": print}


@pytest.mark.parametrize(
    ("text", "begun", "some"),
    [
        ('tkjit.load("gem', "gem", {"gemm", "gemm_all_reduce"}),
        ("load('", "", {"axpy", "gemm"}),
        ('x = tkjit.find( "ax', "ax", {"axpy"}),
    ],
)
def test_completion_of_names(text, begun, some):
    found, names, kind = completions(text, {"tkjit": tkjit, "load": tkjit.load})
    assert found == begun and some <= set(names) and kind == "kernel"


@pytest.mark.parametrize(
    ("text", "begun", "names"),
    [
        ("axpy(", "", ["x=", "y=", "alpha=", "stream="]),
        ("axpy(a, al", "al", ["x=", "y=", "alpha=", "stream="]),
        ("axpy(x=f(1, [2, 3]), y=(4, 5), ", "", ["alpha=", "stream="]),
        ("print(axpy(", "", ["x=", "y=", "alpha=", "stream="]),
        ("axpy(f(", "", []),
        ("f(x, ", "", []),
        ("axpy(x)", "", []),
        ("axpy(x=", "", []),
        ('np.load("g', "", []),
        ('text.find("a', "", []),
        ("unknown(", "", []),
        ("", "", []),
    ],
)
def test_completion_of_arguments(text, begun, names):
    assert completions(text, AXPY)[:2] == (begun, names)


def test_completion_does_not_evaluate_properties():
    class Model:
        kernel = property(lambda self: 1 / 0)

    model = Model()
    model.own = AXPY["axpy"]
    assert completions("model.kernel(", {"model": model})[1] == []
    assert "x=" in completions("model.own(", {"model": model})[1]


def test_completion_in_a_shell(shell):
    shell.user_ns.update(AXPY, tkjit=tkjit)
    with provisionalcompleter():
        assert [one.text for one in shell.Completer.completions('tkjit.load("gem', 15)] == ["gemm", "gemm_all_reduce"]
        assert "alpha=" in [one.text for one in shell.Completer.completions("axpy(x, al", 10)]
