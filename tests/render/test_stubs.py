"""Stubs: the types of a kernel's overloads and results."""

from __future__ import annotations

import ast
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.specs import changed
from support.stubs import OPTIONS, SOURCE, calls, docs, scale, stub

import tkjit
from tkjit import In, InOut, Out, Tensor
from tkjit.render.stubs import MARK, render_module_stub

INTEGERS = {**OPTIONS, "variants": {"T": ("int32",)}}


# ---- a call


def test_stub_of_a_kernel():
    @tkjit.kernel(SOURCE, **OPTIONS)
    def twice(x: In[Tensor, "T", "N"], y: Out[Tensor, "T", "N"]) -> Tensor:
        """y <- 2 * x

        Exactly.
        """

    assert stub(twice) == (
        f"{MARK}\n"
        "\n"
        "import tkjit\n"
        "import torch\n"
        "from torch import Tensor\n"
        "\n"
        "class _twice_kernel(tkjit.Kernel):\n"
        "    def __call__(\n"
        "        self,\n"
        "        x: Tensor,\n"
        "        *,\n"
        "        y: Tensor | None = None,\n"
        "        out: Tensor | None = None,\n"
        "        stream: torch.cuda.Stream | int | None = None,\n"
        "    ) -> Tensor:\n"
        '        """y <- 2 * x\n'
        "\n"
        "        Exactly.\n"
        '        """\n'
        "\n"
        "twice: _twice_kernel\n"
    )


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("axpy", "(x: Tensor, y: Tensor, alpha: float=1.0) -> Tensor"),
        ("gemm", "(a: Tensor, b: Tensor, *, c: Tensor | None=None, out: Tensor | None=None) -> Tensor"),
        ("softmax", "(x: Tensor, *, y: Tensor | None=None, out: Tensor | None=None) -> Tensor"),
    ],
)
def test_bundled_kernels(name, call):
    text = stub(tkjit.find(name))
    assert calls(text) == [call]
    assert docs(text) == [tkjit.find(name).specs[0].doc]


def test_parameters_are_those_of_a_call():
    (call,) = calls(stub(scale))
    assert call == (
        "(x: Tensor, shift: Tensor | None, alpha: float=2.0, *, bias: Tensor | None=None, count: int=3, "
        "exact: bool=False, limit: float | None=None, y: Tensor | None=None, out: Tensor | None=None) -> Tensor"
    )


@pytest.mark.parametrize(
    ("default", "text"),
    [
        (2.5, "2.5"),
        (-3, "-3"),
        (True, "True"),
        (1e-30, "1e-30"),
        (math.inf, "..."),
        (-math.inf, "..."),
        (math.nan, "..."),
        ("sum", "'sum'"),
        ('a "b"\n', "'a \"b\"\\n'"),
        ("x" * 100, "..."),
        ((1, 2), "(1, 2)"),
        (Path("a"), "..."),
    ],
    ids=repr,
)
def test_default_is_shown_if_it_is_a_literal(default, text):
    spec = scale.specs[0]
    fields = tuple(replace(f, default=default) if f.name == "alpha" else f for f in spec.fields)
    rendered = render_module_stub("", {"scale": [changed(spec, fields=fields)]})
    assert f"alpha: float = {text}," in rendered
    ast.parse(rendered)


def test_default_may_be_a_dtype():
    import torch

    spec = scale.specs[0]
    fields = tuple(replace(f, default=torch.bfloat16) if f.name == "alpha" else f for f in spec.fields)
    assert "= torch.bfloat16," in render_module_stub("", {"scale": [changed(spec, fields=fields)]})


def test_kernel_without_results_returns_none():
    @tkjit.kernel(SOURCE, **OPTIONS)
    def fill(x: InOut[Tensor, "T", "N"]) -> None: ...

    assert calls(stub(fill)) == ["(x: Tensor) -> None"]
    assert "-> None: ..." in stub(fill)


def test_optional_result_may_be_none():
    @tkjit.kernel(SOURCE, **OPTIONS)
    def fill(x: In[Tensor, "T", "N"], y: InOut[Tensor, "T", "N"] | None = None) -> Tensor: ...

    assert calls(stub(fill)) == ["(x: Tensor, y: Tensor | None=None) -> Tensor | None"]


def test_several_outputs_are_returned_as_a_named_tuple():
    @tkjit.kernel(SOURCE, **OPTIONS)
    def topk(x: In[Tensor, "T", "N"], values: Out[Tensor, "T", "N"], index: Out[Tensor, "int32", "N"]): ...

    text = stub(topk)
    assert calls(text) == [
        "(x: Tensor, *, values: Tensor | None=None, index: Tensor | None=None, "
        "out: tuple[Tensor, Tensor] | None=None) -> _topk_result"
    ]
    fields = "    values: Tensor\n    index: Tensor  # type: ignore[assignment]\n"  # a tuple has a method of that name
    assert f"import typing\n{text[text.index('import tkjit') :]}" in text
    assert f"class _topk_result(typing.NamedTuple):\n{fields}" in text


@pytest.mark.parametrize(
    "doc",
    [
        'He said "no"',
        'a """ b',
        "\\(x_i\\) and \\",
        'two lines\n\nand the last "quoted"',
        "three\n\n\nparts\n    indented",
        '"',
        'a """',
        'a \\"',
        "\\",
    ],
)
def test_docstrings_survive(doc):
    assert docs(render_module_stub("", {"scale": [changed(scale.specs[0], doc=doc)]})) == [doc]


# ---- overloads

X, MATRIX = In[Tensor, "T", "N"], In[Tensor, "T", "M", "N"]
Y = Out[Tensor, "T", "N"]


def overloaded(*signatures: str, options: tuple[dict, ...] = (OPTIONS, OPTIONS, OPTIONS)) -> str:
    """The stub of a kernel with these overloads."""
    kernel = None
    for i, signature in enumerate(signatures):
        defined = {"X": X, "MATRIX": MATRIX, "Y": Y}
        exec(f"def f({signature}):\n    'The {i}th.'", defined)
        add = tkjit.kernel if kernel is None else kernel.overload
        kernel = add(SOURCE, **options[i])(defined["f"])
    text = stub(kernel)
    several = len(calls(text)) > 1
    assert text.count("    @typing.overload\n") == (len(calls(text)) if several else 0)
    assert ("# mypy: disable-error-code" in text) == several
    return text


def test_overloads_with_different_types_are_kept_apart():
    text = overloaded("x: X, other: X", "x: X, other: float")
    assert calls(text) == ["(x: Tensor, other: Tensor) -> None", "(x: Tensor, other: float) -> None"]
    assert docs(text) == ["The 0th.", "The 1th."]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("x: X, other: float", "x: X, another: float"),
        ("x: X, other: float", "x: X"),
        ("x: X, n: int", "n: int, x: X"),
        ("x: X, *, n: int", "x: X, n: int"),
        ("x: X, n: int", "x: X, n: int = 1"),
        ("x: X, n: int", "x: X, n: int | None"),
        ("x: X, n: int", "x: X, n: float"),  # a call tries the narrow one first
        ("x: X", "x: X, n: int = 1"),
    ],
)
def test_overloads_that_accept_different_calls_are_kept_apart(first, second):
    assert len(calls(overloaded(first, second))) == 2


@pytest.mark.parametrize(
    ("first", "second", "call"),
    [
        ("x: X, n: int", "x: X, n: int", "(x: Tensor, n: int)"),
        ("x: X, b: X", "x: X, b: MATRIX", "(x: Tensor, b: Tensor)"),
        ("x: X, n: float", "x: X, n: int", "(x: Tensor, n: float)"),
        ("x: X, n: int", "x: X, n: bool", "(x: Tensor, n: int)"),
        ("x: X, n: float | None", "x: X, n: int", "(x: Tensor, n: float | None)"),
        ("x: X, n: int = 1", "x: X, n: int", "(x: Tensor, n: int=1)"),
        ("x: X, n: int = 1", "x: X", "(x: Tensor, n: int=1)"),
        ("x: X, n: int", "x: X, *, n: int", "(x: Tensor, n: int)"),
    ],
)
def test_overload_that_accepts_no_other_calls_is_merged(first, second, call):
    text = overloaded(first, second, options=(OPTIONS, INTEGERS))
    assert calls(text) == [f"{call} -> None"]
    assert docs(text) == ["The 0th.\n\nThe 1th."]


def test_default_on_which_overloads_disagree_is_not_shown():
    assert calls(overloaded("x: X, n: int = 1", "x: X, n: int = 2")) == ["(x: Tensor, n: int=...) -> None"]
    assert calls(overloaded("x: X, n: int = 1", "x: X, n: int = 1")) == ["(x: Tensor, n: int=1) -> None"]


def test_merged_overloads_return_either_result():
    (call,) = calls(overloaded("x: X, y: Y", "x: X", "x: X, y: Y"))
    assert call.endswith("-> Tensor | None")


def test_each_result_has_its_named_tuple():
    text = overloaded("x: X, a: Y, b: Y", "x: X, n: int, a: Y, c: Y", "x: X, m: int, a: Y, b: Y")
    assert [call.split(" -> ")[1] for call in calls(text)] == ["_f_result", "_f_result2", "_f_result"]
    assert "class _f_result(typing.NamedTuple):\n    a: Tensor\n    b: Tensor\n" in text
    assert "class _f_result2(typing.NamedTuple):\n    a: Tensor\n    c: Tensor\n" in text


def test_non_numeric_values():
    def many(
        x: InOut[Tensor, "float32", "N"],
        xs: In[list[Tensor], "float32", "N"],
        sizes: list[int] = (1, 2),
        t: torch.dtype = torch.bfloat16,
        d: torch.device = "cuda:1",
        w: dict[str, float] | None = None,
    ) -> Tensor: ...

    kernel = tkjit.kernel("inline void f(Globals g) {}", entry="f", host=True)(many)
    text = render_module_stub("many = tkjit.find('many')", {"many": kernel.specs})
    for line in (
        "xs: typing.Sequence[Tensor],",
        "sizes: int | typing.Sequence[int] = (1, 2),",
        "t: torch.dtype | str = 'bfloat16',",
        "d: torch.device | str | int = 'cuda:1',",
        "w: dict[str, float] | None = None,",
    ):
        assert line in text
    assert "import typing" in text and "import torch\n" in text
