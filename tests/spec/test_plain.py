"""Plain spec files: how they are recognized, and how their specs are stored."""

import pickle
from pathlib import Path

import pytest

import tkjit
from tkjit.errors import SpecError
from tkjit.loader.warm_start import pack, unpack
from tkjit.registry import bundled_directory
from tkjit.spec import Spec
from tkjit.spec.model import MISSING
from tkjit.spec.plain import is_plain

HEAD = "import tkjit\nfrom tkjit import Align, CType, In, InOut, Tensor\n"
KERNEL = '@tkjit.kernel("a.cu", entry="a", grid=1, block=1)\n'
FUNCTION = 'def a(x: InOut[Tensor, "float32", "N"], n: int = 3) -> Tensor: ...\n'


@pytest.mark.parametrize("path", sorted(bundled_directory().glob("*.py")), ids=lambda path: path.stem)
def test_bundled_specs_are_plain(path):
    assert is_plain(path.read_text())


@pytest.mark.parametrize(
    "text",
    [
        HEAD + KERNEL + FUNCTION,
        '"""Words."""\nfrom __future__ import annotations\nimport torch\n' + HEAD + KERNEL + FUNCTION,
        "import tkjit as t\n@t.kernel('a.cu', entry='a')\ndef a(x: t.InOut[t.Tensor, 'float32', 'N']): ...",
        "from tkjit import kernel\n@kernel('a.cu', entry='a')\ndef a(n: int | None = -1) -> tuple[int, int]: ...",
        HEAD + "SIZES = (1, 2 * 3)\n" + KERNEL.replace("grid=1", 'grid=SIZES, variants={"T": SIZES}') + FUNCTION,
        HEAD + KERNEL + FUNCTION.replace('"N"', '"N", Align(16), CType("gl<bf16>")'),
        HEAD + KERNEL + FUNCTION + "@a.overload('b.cu', entry='b', grid=1, block=1)\ndef a(n: float): ...\n",
        HEAD + KERNEL + FUNCTION.replace("...", "import os; return os.environ"),
        HEAD + "def peer(x): ...\n" + KERNEL.replace("block=1", 'block=1, peers={"cuBLAS": peer}') + FUNCTION,
        HEAD + KERNEL + FUNCTION.replace("-> Tensor", "").replace("n: int", "*, n: bool"),
        "import tkjit\nfrom tkjit import Constant, Fill, Generator, Out, Scratch, Strided, Struct, Zero\n"
        + KERNEL
        + 'def a(x: Out[Strided, "float32", 4, Fill(1.0)], s: Scratch[Strided, "int32", 4, Zero], r: Generator): ...',
    ],
)
def test_file_that_only_declares_kernels_is_plain(text):
    assert is_plain(text)


@pytest.mark.parametrize(
    "text",
    [
        "import os\n" + HEAD + KERNEL + FUNCTION,
        "from os import environ\n" + HEAD,
        "from .parts import SIZE\n" + HEAD,
        "from tkjit import load\n",
        "from tkjit import *\n",
        HEAD + KERNEL.replace("block=1", "block=tkjit.load('b').specs") + FUNCTION,
        HEAD + KERNEL.replace("block=1", "block=len('a')") + FUNCTION,
        HEAD + KERNEL.replace("block=1", 'block=1, peers={"os": print}') + FUNCTION,
        HEAD + "def peer(x): ...\n" + KERNEL.replace("block=1", "block=1, peers={**peer()}") + FUNCTION,
        HEAD + KERNEL.replace("block=1", "block=BLOCK") + FUNCTION,
        HEAD + KERNEL.replace("block=1", "block=(lambda: 1)()") + FUNCTION,
        HEAD + KERNEL.replace("block=1", "block=[1 for _ in range(2)]") + FUNCTION,
        HEAD + KERNEL.replace("block=1", 'block=f"{__name__}"') + FUNCTION,
        HEAD + KERNEL.replace("block=1", "**OPTIONS") + FUNCTION,
        HEAD + "OPTIONS = {}\n" + KERNEL.replace("block=1", "**{**OPTIONS, 'block': 1}") + FUNCTION,
        HEAD + KERNEL + "@staticmethod\n" + FUNCTION,
        HEAD + "@decorated\n" + FUNCTION,
        HEAD + "@other.kernel('a.cu', entry='a')\n" + FUNCTION,
        HEAD + KERNEL + FUNCTION.replace("n: int", "n: 'int'"),
        HEAD + KERNEL + FUNCTION.replace("n: int = 3", "n: int = SIZE"),
        HEAD + KERNEL + FUNCTION.replace("n: int = 3", "n: int = __import__('os').getpid()"),
        HEAD + KERNEL + "async " + FUNCTION,
        HEAD + KERNEL + FUNCTION + "print('read')\n",
        HEAD + KERNEL + FUNCTION + "a.doc = 'new'\n",
        HEAD + "for size in (1, 2):\n    pass\n",
        HEAD + "if True:\n    pass\n",
        HEAD + "class A: ...\n",
        HEAD + "SIZE = os.cpu_count()\n",
        HEAD + "Align = print\n",
        HEAD + "A, B = 1, 2\n",
        "def a(:",
        "\0",
    ],
)
def test_file_that_does_more_is_not_plain(text):
    assert not is_plain(text)


@pytest.mark.parametrize("name", ["axpy", "gemm_all_reduce", "softmax"])
def test_unpacked_specs_equal_the_packed_ones(name):
    kernel = tkjit.find(name)
    for spec in kernel.specs:
        for dim in spec.grid:
            dim.evaluate(dict.fromkeys([*dim.names], 1))  # stores the parsed tree in the dim; it must not be packed
    specs = unpack(pack(kernel.specs, bundled_directory() / f"{name}.py"))
    assert specs == kernel.specs and repr(specs) == repr(kernel.specs)
    assert all(vars(dim).keys() == {"text"} for spec in specs for dim in spec.grid)
    assert [spec.module for spec in specs] == [spec.module for spec in kernel.specs]


def test_missing_stays_a_singleton_after_pickling():
    assert pickle.loads(pickle.dumps(MISSING)) is MISSING


def test_unpacked_reference_is_found_when_it_is_called(tmp_path: Path):
    path = tmp_path / "twice.py"
    body = "return 2 * n\n"
    path.write_text(HEAD + KERNEL + "def twice(x: InOut[Tensor, 'float32', 'N'], n: int):\n    " + body)
    kernel = tkjit.registry.run_spec_file(path, path.stem)
    (spec,) = unpack(pack(kernel.specs, path))
    assert isinstance(spec, Spec) and spec.reference(None, 21) == 42


def test_reference_is_rejected_after_its_file_has_changed(tmp_path):
    """The reference in the changed file would belong to the next version of the kernel."""
    path = tmp_path / "twice.py"
    text = """
import tkjit
from tkjit import In, Out, Tensor

@tkjit.kernel("", entry="f", grid=1, block=1)
def twice(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor:
    return 2 * x
"""
    path.write_text(text)
    (spec,) = unpack(pack(tkjit.registry.run_spec_file(path, "twice").specs, path))
    assert spec.reference(3, None) == 6
    path.write_text(text.replace("2 * x", "3 * x"))
    with pytest.raises(SpecError, match=r"twice\.py has changed since twice was loaded; load it again"):
        spec.reference(3, None)
    path.write_text(text)
    assert spec.reference(3, None) == 6
    path.unlink()
    with pytest.raises(SpecError, match="has changed since"):
        spec.reference(3, None)
