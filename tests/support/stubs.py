"""Renders and reads stubs: the signatures and docstrings of their kernels."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import tkjit
from tkjit import In, Kernel, Out, Scalar, Tensor
from tkjit.render.stubs import render_module_stub

SOURCE = "template <class T> __global__ void f(Globals g) {}\n"
OPTIONS = {"entry": "f<T>", "grid": 1, "block": 32, "variants": {"T": ("float32", "bfloat16")}}
STREAM = "stream: torch.cuda.Stream | int | None=None"
INIT = Path(tkjit.__file__).read_text()


def stub(kernel: Kernel, source: str = "") -> str:
    return render_module_stub(source, {kernel.name: kernel.specs})


def calls(text: str) -> list[str]:
    """Return the signatures of a stub's kernels, without ``self`` and ``stream``."""
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    found = [f"({ast.unparse(f.args)}) -> {ast.unparse(f.returns)}" for f in functions if f.name == "__call__"]
    assert all(STREAM in call for call in found)
    return [call.replace("self, ", "", 1).replace(f", {STREAM}", "").replace(", *)", ")") for call in found]


def docs(text: str) -> list[str]:
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    return [inspect.cleandoc(ast.get_docstring(f, clean=False) or "") for f in functions if f.name == "__call__"]


@tkjit.kernel(SOURCE, **OPTIONS)
def scale(
    x: In[Tensor, "T", "N"],
    shift: In[Tensor, "T", "N"] | None,
    alpha: float = 2.0,
    *,
    bias: In[Tensor, "T", "N"] | None = None,
    count: Scalar[int, "uint32_t"] = 3,
    exact: bool = False,
    limit: float | None = None,
    y: Out[Tensor, "T", "N"] = None,
) -> Tensor: ...
