"""Stubs of whole modules: those that define kernels, and tkjit itself."""

from __future__ import annotations

import ast
import re

import pytest
from support.stubs import INIT, calls, scale, stub

import tkjit
from tkjit import SpecError
from tkjit.render.stubs import MARK, render_module_stub, render_package_stub

# ---- a module

MODULE = '''
"""A project's kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable

import tkjit
import untyped  # type: ignore[import-untyped]

from . import helpers
from .helpers import half, relu

WIDTH = 256
SOURCE = """
__global__ void scale() {}
"""
NAMES: list[str] = []
LIMIT: float = 2.0 * WIDTH

@tkjit.kernel(SOURCE, entry="scale")
def scale(x): ...

@scale.overload(SOURCE, entry="scale")
def scale(x, y): ...

for i in range(3):
    last = i

class Norm:
    """A norm."""

    def __init__(self, width: int = WIDTH) -> None:
        self.width = width

    def forward(self, n: int) -> int:
        """Nothing much."""
        return n * self.width

@functools.cache
def wrapper(call: Callable[[], int]) -> int:
    result = call()
    return result

async def later(): return 3

print("loaded")
if WIDTH > 3:
    from fast import exp
else:
    exp = None
if __name__ == "__main__":
    main = wrapper(lambda: 3)
'''


def test_module_stub_has_all_definitions():
    text = render_module_stub(MODULE.lstrip(), {"scale": scale.specs, "relu": scale.specs})
    kernel = text[text.index("class _scale_kernel") : text.index("\nscale: _scale_kernel")]
    assert calls(kernel) == calls(stub(scale))
    assert text.replace(kernel, "<the kernel>\n") == (
        f'{MARK}\n"""A project\'s kernels."""\n'
        "\n"
        "import typing\n"
        "import torch\n"
        "from torch import Tensor\n"
        "\n"
        "import functools\n"
        "from collections.abc import Callable\n"
        "\n"
        "import tkjit\n"
        "import untyped  # type: ignore[import-untyped]\n"
        "\n"
        "from . import helpers as helpers\n"
        "from .helpers import half as half, relu as relu\n"
        "\n"
        "WIDTH: int\n"
        "SOURCE: str\n"
        "NAMES: list[str] = []\n"
        "LIMIT: float\n"
        "\n"
        "<the kernel>\n"
        "\n"
        "scale: _scale_kernel\n"
        "\n"
        "i: typing.Any\n"
        "last: typing.Any\n"
        "\n"
        "class Norm:\n"
        '    """A norm."""\n'
        "\n"
        "    def __init__(self, width: int=WIDTH) -> None:\n"
        "        self.width = width\n"
        "\n"
        "    def forward(self, n: int) -> int:\n"
        '        """Nothing much."""\n'
        "\n"
        "@functools.cache\n"
        "def wrapper(call: Callable[[], int]) -> int:\n"
        "    ...\n"
        "\n"
        "async def later():\n"
        "    ...\n"
        "if WIDTH > 3:\n"
        "    from fast import exp\n"
        "else:\n"
        "    exp = None\n"
    )


@pytest.mark.parametrize(
    ("source", "others"),
    [
        ('scale = tkjit.load("scale")', []),
        ("if True:\n    scale = make()", []),
        ("for name in names: globals()[name] = make(name)", ["name"]),
        ("with open(source) as file: scale = make(file)", ["file"]),
        ("scale, other = make(), 2", ["other"]),
        ("for i in range(3): scale = make(i)\nfor i in range(3): pass", ["i"]),
    ],
)
def test_kernel_is_declared_however_it_was_made(source, others):
    text = stub(scale, source)
    assert text.count("\nscale: _scale_kernel\n") == 1
    assert calls(text) == calls(stub(scale))
    assert re.findall(r"^(\w+): typing.Any$", text, re.MULTILINE) == others
    assert "make" not in text and "load" not in text


@pytest.mark.parametrize("source", ["from ops import scale", "from ops import *", "from ops import f as scale"])
def test_imported_kernel_stays_an_import(source):
    with pytest.raises(SpecError, match=r"^the module defines no kernel$"):
        stub(scale, source)
    text = render_module_stub(f"{source}\nown = 1", {"scale": scale.specs, "own": scale.specs})
    assert f"\n{source}\n" in text and "own: _own_kernel" in text and "scale: " not in text


def test_imports_that_the_module_has_are_not_repeated():
    source = '"""Kernels."""\n\nimport torch\nimport tkjit\nfrom tkjit import Tensor\n\nscale = tkjit.find("scale")\n'
    assert stub(scale, source).startswith(f"{MARK}\n{source.partition('scale')[0]}class _scale_kernel(tkjit.Kernel):\n")


# ---- tkjit itself


def test_stub_of_tkjit_has_all_public_names():
    text = render_package_stub(INIT, {name: tkjit.find(name).specs for name in ("axpy", "gemm")})
    assert calls(text) == [*calls(stub(tkjit.find("axpy"))), *calls(stub(tkjit.find("gemm")))]
    nodes = ast.parse(text).body
    imported = {
        alias.asname or alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    assert defined == {"find", "load"}
    assert set(tkjit.__all__) == (imported | defined) & set(tkjit.__all__)
    assert not imported & defined
    assert '@typing.overload\ndef load(kernel: typing.Literal["gemm"]) -> _gemm_kernel: ...\n' in text
    assert '@typing.overload\ndef find(name: typing.Literal["axpy"]) -> _axpy_kernel: ...\n' in text
    assert "# mypy:" not in text
