"""``python -m tkjit stubs``: the written files, the errors, and mypy's verdict on calls."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.mypy import mypy
from support.stubs import INIT, OPTIONS, SOURCE, calls, stub

import tkjit
from tkjit.cli import main
from tkjit.render.stubs import render_package_stub

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


@pytest.mark.slow  # mypy reads torch's stubs
def test_mypy_accepts_right_calls_and_rejects_wrong_ones(project):
    for name, text in (("ops", OPS), ("right", RIGHT), ("wrong", WRONG)):
        Path(f"{name}.py").write_text(text)
    assert main(["stubs"]) == main(["stubs", "--module", "ops.py"]) == 0
    done = mypy("stubs", project, f"typings:{Path(tkjit.__file__).parents[1]}", "--strict", "right.py", "wrong.py")
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
    """A working directory, whose modules are removed from ``sys.modules`` afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as python -m does
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


def test_stub_of_load_is_written_to_typings(project, capsys):
    assert main(["stubs"]) == 0
    assert capsys.readouterr().out == "typings/tkjit/__init__.pyi\n"
    expected = render_package_stub(INIT, {name: tkjit.find(name).specs for name in tkjit.kernels()})
    assert Path("typings/tkjit/__init__.pyi").read_text() == expected
    assert main(["stubs", "gemm", "-o", "elsewhere"]) == 0
    assert calls(Path("elsewhere/tkjit/__init__.pyi").read_text()) == calls(stub(tkjit.find("gemm")))
    assert len(files(project)) == 2


def test_unchanged_stub_is_not_rewritten(project, capsys):
    assert main(["stubs"]) == 0
    path = Path("typings/tkjit/__init__.pyi")
    before = path.stat()
    assert main(["stubs"]) == 0
    assert capsys.readouterr().out.endswith(f"\n{path} (unchanged)\n")
    after = path.stat()  # st_atime differs, because the file was read
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert path.stat().st_mode & 0o777 == Path("typings").stat().st_mode & 0o666  # as readable as its directory


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
def test_stub_of_a_module_is_written_next_to_it(project, given, where):
    for path in ("ops.py", "package/__init__.py", "package/sub/__init__.py", "package/sub/ops.py", "other/ops2.py"):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(KERNEL)
    before = sys.path[:]
    assert main(["stubs", "--module", *given]) == 0
    assert sys.path == before
    assert files(project) == [where]
    assert calls(Path(where).read_text()) == ["(x: Tensor, n: int) -> None"]


def test_check_lists_outdated_stubs_and_writes_nothing(project, capsys):
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
    assert capsys.readouterr().err == "two.pyi is missing or outdated; write it with python -m tkjit stubs\n"
    assert path.read_text() == outdated
    assert main(command) == 0
    assert main([*command, "--check"]) == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["gemm", "gem"], "no kernel is named 'gem'; did you mean gemm"),
        (["gemm", "--module", "ops.py"], "a module's stub has all of its kernels; pass either names or --module"),
        (["--module", "nothing.py"], "there is no file nothing.py"),
        (["--module", "nothing"], "nothing cannot be imported: ModuleNotFoundError: No module named 'nothing'"),
        (["--module", "broken.py"], "broken.py cannot be imported: ZeroDivisionError: division by zero"),
        (["--module", "leaving.py"], "leaving.py cannot be imported: SystemExit: 3"),
        (["--module", "bare.py"], "bare.py: the module defines no kernel"),
        (["--module", "math"], "math has no Python source"),
        (["--module", "namespace"], "namespace has no Python source"),
        (["--module", "namespace/math.py"], "namespace/math.py cannot be imported: math is "),
        (["-o", "bare.py"], "cannot write bare.py/tkjit/__init__.pyi: Not a directory"),
        (["--module", "ops.py", "--module", "broken.py"], "broken.py cannot be imported: "),
        (["--module", "ops.py", "--module", "by_hand.py"], "by_hand.pyi was not written by this command; move it away"),
        (["--module", "ops.py", "--module", "in_the_way.py"], "cannot read in_the_way.pyi: "),
        (["--module", "ops", "--module", "package.ops", "-o", "out"], "cannot write out/package/ops.pyi: "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_errors_are_reported_and_nothing_is_written(project, capsys, arguments, error):
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
