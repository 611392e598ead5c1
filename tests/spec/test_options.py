"""The options of ``tkjit.kernel`` agree in the reader, the docstring, the documents and the types."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from support.mypy import mypy

import tkjit
from tkjit.kernel_objects import host
from tkjit.spec import Options, read

DOCS = Path(__file__).parents[2] / "docs"
NAMES = list(Options.__annotations__)
PROGRAM = """\
import tkjit
from tkjit import InOut, Tensor

source = "__global__ void f(Globals g) {{}}"


@tkjit.kernel(source, entry="f", grid=1, block="N"{first})
def f(x: "InOut[Tensor, 'float32', 'N']") -> None: ...


@f.overload(source, entry="f", grid=1, block=1{second})
def g(x: "InOut[Tensor, 'float32', 'N']", y: float) -> None: ...
"""


@pytest.mark.parametrize("name", NAMES)
def test_reader_reads_each_option(name):
    """An option that is declared but never read would be accepted and ignored."""
    text = Path(read.__file__).read_text() + Path(host.__file__).read_text()
    assert f'options.get("{name}"' in text or f'options["{name}"]' in text


@pytest.mark.parametrize("name", NAMES)
def test_each_option_is_documented(name):
    parameters = inspect.cleandoc(tkjit.kernel.__doc__).split("Parameters\n")[1].split("Raises\n")[0]
    listed = re.findall(r"^(\w[\w, ]*?)(?: : .*)?$", parameters, flags=re.MULTILINE)
    assert name in [one for names in listed for one in names.split(", ")]
    text = "".join(path.read_text() for path in DOCS.rglob("*.md"))
    assert re.search(rf"\b{name}=|`{name}`", text), f"docs/ does not explain {name}="


# options of the first and the second decorator, then the line and message of mypy's error
PROGRAMS = {
    "right": ("", ', autocast="lower"', 0, ""),
    "unknown": (", shared_mem=3", "", 7, 'Unexpected keyword argument "shared_mem"'),
    "type": (', pdl="yes"', "", 7, 'Argument "pdl"'),
    "overload": ("", ", gird=1", 11, 'Unexpected keyword argument "gird"'),
    "value": ("", ', autocast="float16"', 11, 'Argument "autocast"'),
}


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """mypy's errors for all programs, from a single run because mypy takes seconds to read torch."""
    directory = tmp_path_factory.mktemp("typed")
    for name, (first, second, _, _) in PROGRAMS.items():
        (directory / f"{name}_options.py").write_text(PROGRAM.format(first=first, second=second))
    files = [f"{name}_options.py" for name in PROGRAMS]
    done = mypy("options", directory, str(Path(tkjit.__file__).parents[1]), *files)
    assert done.returncode == 1, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "error:" in line]


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_mypy_checks_the_options(errors: list[str], name: str):
    *_, line, message = PROGRAMS[name]
    (found,) = [text for text in errors if text.startswith(f"{name}_options.py:")] or [""]
    assert message in found and found.startswith(f"{name}_options.py:{line}:" if message else "")
