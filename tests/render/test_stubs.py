"""Stubs: what type checkers are told of kernels, and that they take it."""

from __future__ import annotations

import ast
import inspect
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import tkjit
from tkjit import In, InOut, Kernel, Out, Scalar, SpecError, Tensor
from tkjit.cli import main
from tkjit.render.stubs import MARK, render_module_stub, render_package_stub

SOURCE = "template <class T> __global__ void f(Globals g) {}\n"
OPTIONS = {"entry": "f<T>", "grid": 1, "block": 32, "variants": {"T": ("float32", "bfloat16")}}
INTEGERS = {**OPTIONS, "variants": {"T": ("int32",)}}
STREAM = "stream: torch.cuda.Stream | int | None=None"
INIT = Path(tkjit.__file__).read_text()


def stub(kernel: Kernel, source: str = "") -> str:
    return render_module_stub(source, {kernel.name: kernel.specs})


def calls(text: str) -> list[str]:
    """The signatures of a stub's kernels, without ``self`` and ``stream``."""
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


# ---- a call


def test_the_stub_of_a_kernel():
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
def test_a_default_is_shown_where_a_literal_says_it(default, text):
    spec = scale.specs[0]
    fields = tuple(replace(f, default=default) if f.name == "alpha" else f for f in spec.fields)
    rendered = render_module_stub("", {"scale": [replace(spec, fields=fields)]})
    assert f"alpha: float = {text}," in rendered
    ast.parse(rendered)


def test_a_dtype_is_a_default_too():
    import torch

    spec = scale.specs[0]
    fields = tuple(replace(f, default=torch.bfloat16) if f.name == "alpha" else f for f in spec.fields)
    assert "= torch.bfloat16," in render_module_stub("", {"scale": [replace(spec, fields=fields)]})


def test_nothing_is_returned():
    @tkjit.kernel(SOURCE, **OPTIONS)
    def fill(x: InOut[Tensor, "T", "N"]) -> None: ...

    assert calls(stub(fill)) == ["(x: Tensor) -> None"]
    assert "-> None: ..." in stub(fill)


def test_what_a_call_may_leave_out_comes_back_as_none():
    @tkjit.kernel(SOURCE, **OPTIONS)
    def fill(x: In[Tensor, "T", "N"], y: InOut[Tensor, "T", "N"] | None = None) -> Tensor: ...

    assert calls(stub(fill)) == ["(x: Tensor, y: Tensor | None=None) -> Tensor | None"]


def test_several_outputs_come_back_as_a_named_tuple():
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
    assert docs(render_module_stub("", {"scale": [replace(scale.specs[0], doc=doc)]})) == [doc]


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


def test_overloads_of_other_types_are_told_apart():
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
def test_overloads_that_take_other_calls_are_told_apart(first, second):
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
def test_an_overload_that_takes_no_other_call_is_one_with_the_earlier(first, second, call):
    text = overloaded(first, second, options=(OPTIONS, INTEGERS))
    assert calls(text) == [f"{call} -> None"]
    assert docs(text) == ["The 0th.\n\nThe 1th."]


def test_a_default_on_which_overloads_disagree_is_not_shown():
    assert calls(overloaded("x: X, n: int = 1", "x: X, n: int = 2")) == ["(x: Tensor, n: int=...) -> None"]
    assert calls(overloaded("x: X, n: int = 1", "x: X, n: int = 1")) == ["(x: Tensor, n: int=1) -> None"]


def test_overloads_that_are_one_return_what_either_does():
    (call,) = calls(overloaded("x: X, y: Y", "x: X", "x: X, y: Y"))
    assert call.endswith("-> Tensor | None")


def test_each_result_has_its_named_tuple():
    text = overloaded("x: X, a: Y, b: Y", "x: X, n: int, a: Y, c: Y", "x: X, m: int, a: Y, b: Y")
    assert [call.split(" -> ")[1] for call in calls(text)] == ["_f_result", "_f_result2", "_f_result"]
    assert "class _f_result(typing.NamedTuple):\n    a: Tensor\n    b: Tensor\n" in text
    assert "class _f_result2(typing.NamedTuple):\n    a: Tensor\n    c: Tensor\n" in text


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


def test_the_stub_of_a_module_has_all_that_it_defines():
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
def test_a_kernel_is_declared_however_it_was_made(source, others):
    text = stub(scale, source)
    assert text.count("\nscale: _scale_kernel\n") == 1
    assert calls(text) == calls(stub(scale))
    assert re.findall(r"^(\w+): typing.Any$", text, re.MULTILINE) == others
    assert "make" not in text and "load" not in text


@pytest.mark.parametrize("source", ["from ops import scale", "from ops import *", "from ops import f as scale"])
def test_a_kernel_that_is_imported_stays_so(source):
    with pytest.raises(SpecError, match=r"^the module defines no kernel$"):
        stub(scale, source)
    text = render_module_stub(f"{source}\nown = 1", {"scale": scale.specs, "own": scale.specs})
    assert f"\n{source}\n" in text and "own: _own_kernel" in text and "scale: " not in text


def test_what_the_module_imports_itself_is_not_imported_again():
    source = '"""Kernels."""\n\nimport torch\nimport tkjit\nfrom tkjit import Tensor\n\nscale = tkjit.find("scale")\n'
    assert stub(scale, source).startswith(f"{MARK}\n{source.partition('scale')[0]}class _scale_kernel(tkjit.Kernel):\n")


# ---- tkjit itself


def test_the_stub_of_tkjit_has_all_that_it_offers():
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


# ---- type checkers

OPS = """
import torch
import tkjit
from tkjit import In, InOut, Out, Tensor

SOURCE = "template <class T> __global__ void f(Globals g) {}"
OPTIONS = dict(entry="f<T>", grid=1, block=32, variants={"T": ("float32", "int32")})
X, Y = In[Tensor, "T", "N"], Out[Tensor, "T", "N"]

@tkjit.kernel(SOURCE, **OPTIONS)
def topk(x: X, k: int = 3, limit: float = float("inf"), *, index: Y, count: Y, largest: bool = True): ...

@tkjit.kernel(SOURCE, **OPTIONS)
def add(x: X, y: X, z: Y): ...
@add.overload(SOURCE, **OPTIONS)
def add(x: X, y: int): ...
@add.overload(SOURCE, **OPTIONS)
def add(x: X, y: float, z: Y): ...
@add.overload(SOURCE, **OPTIONS)
def add(x: X, y: int, z: Y): ...
@add.overload(SOURCE, **OPTIONS)
def add(x: X, y: X | None, z: Y, w: Y): ...

@tkjit.kernel(SOURCE, **OPTIONS)
def _fill(x: InOut[Tensor, "T", "N"], value: float) -> None: ...

gemm = tkjit.find("gemm")

def wrapper(x: torch.Tensor, n: int = 3) -> torch.Tensor:
    return gemm(x, x)
"""
RIGHT = """
import torch
import tkjit
from ops import SOURCE, _fill, add, gemm, topk, wrapper

x = torch.ones(3)
y: torch.Tensor
y = tkjit.load("axpy")(x, x, alpha=2)
y = tkjit.load("gemm")(x, x, out=x, stream=3)
y = tkjit.find("softmax")(x, y=None)
y = tkjit.load(gemm)(a=x, b=x)
name: str = gemm.name + tkjit.find("gemm").specs[0].name + SOURCE
other: tkjit.Kernel = tkjit.load("another")
other(3, anything=4)
result = topk(x, 3, largest=False)
y = result.index
first, second = topk(x, out=result)
y = first + second + topk(x, out=(x, x)).count
y = add(x, x, z=x)
y = add(x, 2.5)
y = add(x, None).w
y = wrapper(x)
_fill(x, 3)
"""
WRONG = """
import torch
import tkjit
from ops import _fill, add, topk, wrapper

x = torch.ones(3)
tkjit.load("gemm")(x)  # call-arg
tkjit.load("gemm")(x, 3)  # arg-type
tkjit.load("softmax")(x, x)  # call-arg
tkjit.find("axpy")(x, x, beta=1.0)  # call-arg
tkjit.load("gemm")(x, x).nothing  # attr-defined
tkjit.load(topk)(x, "3")  # arg-type
topk(x, out=x)  # arg-type
topk(x, out=(x, x, x))  # arg-type
topk(x).values  # attr-defined
topk(x, stream="0")  # arg-type
add(x, "2.5")  # call-overload
s: str = add(x, x)  # assignment
n = _fill(x, 1)  # func-returns-value
wrapper("x")  # arg-type
"""


def test_mypy_takes_what_is_right_and_refuses_what_is_wrong(project):
    for name, text in (("ops", OPS), ("right", RIGHT), ("wrong", WRONG)):
        Path(f"{name}.py").write_text(text)
    assert main(["stubs"]) == main(["stubs", "--module", "ops.py"]) == 0
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--python-version=3.10", "right.py", "wrong.py"],
        env={**os.environ, "MYPYPATH": f"typings:{Path(tkjit.__file__).parents[1]}"},
        capture_output=True,
        text=True,
    )
    found = re.findall(r"^(.*):(\d+): error: .*\[(.*)\]$", done.stdout, re.MULTILINE)
    expected = [
        ("wrong.py", str(number), line.split("  # ")[1])
        for number, line in enumerate(WRONG.split("\n"), 1)
        if "  # " in line
    ]
    assert found == expected, done.stdout + done.stderr


# ---- the command


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory, whose modules are forgotten with it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # python -m does it
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


KERNEL = f"""
import tkjit
from tkjit import In, Tensor

@tkjit.kernel({SOURCE!r}, **{OPTIONS!r})
def mine(x: In[Tensor, "T", "N"], n: int): ...
"""


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*.pyi*"))


def test_load_is_typed_by_a_stub_in_typings(project, capsys):
    assert main(["stubs"]) == 0
    assert capsys.readouterr().out == "typings/tkjit/__init__.pyi\n"
    expected = render_package_stub(INIT, {name: tkjit.find(name).specs for name in tkjit.kernels()})
    assert Path("typings/tkjit/__init__.pyi").read_text() == expected
    assert main(["stubs", "gemm", "-o", "elsewhere"]) == 0
    assert calls(Path("elsewhere/tkjit/__init__.pyi").read_text()) == calls(stub(tkjit.find("gemm")))
    assert len(files(project)) == 2


def test_a_stub_that_is_right_is_not_written_again(project, capsys):
    assert main(["stubs"]) == 0
    path = Path("typings/tkjit/__init__.pyi")
    before = path.stat()
    assert main(["stubs"]) == 0
    assert capsys.readouterr().out.endswith(f"\n{path} (unchanged)\n")
    assert path.stat() == before
    assert path.stat().st_mode & 0o777 == Path("typings").stat().st_mode & 0o666  # others may read it as they may that


@pytest.mark.parametrize(
    ("given", "where"),
    [
        (["ops.py"], "ops.pyi"),
        (["ops"], "ops.pyi"),
        (["package/sub/ops.py"], "package/sub/ops.pyi"),
        (["package.sub.ops"], "package/sub/ops.pyi"),
        (["package"], "package/__init__.pyi"),
        (["package/__init__.py"], "package/__init__.pyi"),
        (["other/ops2.py"], "other/ops2.pyi"),
        (["ops.py", "-o", "stubs"], "stubs/ops.pyi"),
        (["package/sub/ops.py", "-o", "stubs"], "stubs/package/sub/ops.pyi"),
        (["package", "-o", "stubs"], "stubs/package/__init__.pyi"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_modules_stub_lies_beside_it(project, given, where):
    for path in ("ops.py", "package/__init__.py", "package/sub/__init__.py", "package/sub/ops.py", "other/ops2.py"):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(KERNEL)
    before = sys.path[:]
    assert main(["stubs", "--module", *given]) == 0
    assert sys.path == before
    assert files(project) == [where]
    assert calls(Path(where).read_text()) == ["(x: Tensor, n: int) -> None"]


def test_check_names_what_is_outdated_and_writes_nothing(project, capsys):
    for name in ("one", "two"):
        Path(f"{name}.py").write_text(KERNEL)
    command = ["stubs", "--module", "one.py", "--module", "two.py"]
    assert main([*command, "--check"]) == 1
    assert files(project) == []
    assert main(command) == 0
    assert main([*command, "--check"]) == 0
    capsys.readouterr()
    path = Path("two.pyi")
    path.write_text(path.read_text().replace("n: int", "n: float"))
    outdated = path.read_text()
    assert main([*command, "--check"]) == 1
    assert capsys.readouterr().err == "two.pyi is not what python -m tkjit stubs would write\n"
    assert path.read_text() == outdated
    assert main(command) == 0
    assert main([*command, "--check"]) == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["gemm", "gem"], "no kernel is named 'gem'; did you mean gemm"),
        (["gemm", "--module", "ops.py"], "a module's stub has all of its kernels; give names or --module"),
        (["--module", "nothing.py"], "there is no file nothing.py"),
        (["--module", "nothing"], "nothing cannot be imported: ModuleNotFoundError: No module named 'nothing'"),
        (["--module", "broken.py"], "broken.py cannot be imported: ZeroDivisionError: division by zero"),
        (["--module", "leaving.py"], "leaving.py cannot be imported: SystemExit: 3"),
        (["--module", "bare.py"], "bare.py: the module defines no kernel"),
        (["--module", "math"], "math has no source in Python"),
        (["--module", "namespace"], "namespace has no source in Python"),
        (["--module", "namespace/math.py"], "namespace/math.py cannot be imported: math is "),
        (["-o", "bare.py"], "cannot write bare.py/tkjit/__init__.pyi: Not a directory"),
        (["--module", "ops.py", "--module", "broken.py"], "broken.py cannot be imported: "),
        (["--module", "ops.py", "--module", "by_hand.py"], "by_hand.pyi was not written by this command; move it away"),
        (["--module", "ops.py", "--module", "in_the_way.py"], "cannot read in_the_way.pyi: "),
        (["--module", "ops", "--module", "package.ops", "-o", "out"], "cannot write out/package/ops.pyi: "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_said_and_nothing_is_written(project, capsys, arguments, error):
    for name in ("namespace", "out", "in_the_way.pyi", "package"):
        Path(name).mkdir()
    Path("out/package").touch()
    texts = {
        "bare": "x = 3",
        "broken": f"{KERNEL}\n1 / 0",
        "leaving": "import sys\nsys.exit(3)",
        "namespace/math": KERNEL,
    }
    for name in ("ops", "by_hand", "in_the_way", "package/__init__", "package/ops"):
        texts[name] = KERNEL
    for name, text in texts.items():
        Path(f"{name}.py").write_text(text)
    Path("by_hand.pyi").write_text("mine: int\n")
    before = files(project)
    assert main(["stubs", *arguments]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith(f"tkjit: {error}") and printed.out == ""
    assert files(project) == before
    assert Path("by_hand.pyi").read_text() == "mine: int\n"
    assert [path.name for path in project.rglob(".*")] == []


def test_values_that_are_no_numbers():
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
        "sizes: typing.Sequence[int] = (1, 2),",
        "t: torch.dtype | str = 'bfloat16',",
        "d: torch.device | str = 'cuda:1',",
        "w: dict[str, float] | None = None,",
    ):
        assert line in text
    assert "import typing" in text and "import torch\n" in text
