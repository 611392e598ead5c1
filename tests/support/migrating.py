"""Runs the examples of docs/howto/migrating.md, which show each kernel in another system and then in tkjit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

DOCUMENT = Path(__file__).parents[2] / "docs/howto/migrating.md"


class Example(NamedTuple):
    section: str
    is_before: bool
    code: str


def examples_of() -> list[Example]:
    found = []
    for section in DOCUMENT.read_text().split("\n## ")[1:]:
        title, text = section.split("\n", 1)
        for introduction, code in re.findall(r"(.*?)\n```python\n(.*?)```", text, re.DOTALL):
            words = re.findall(r"^(Before|Now)\b", introduction, re.MULTILINE)
            found.append(Example(title, words[-1] == "Before", code))
    return found


EXAMPLES = examples_of()


def is_slow(example: Example) -> bool:
    """Return whether an example compiles host code with torch's headers."""
    return "load_inline" in example.section or "CUDAExtension" in example.section


def named(*, before: bool) -> list[object]:
    """Return the examples before or after migration as test parameters, named by their sections."""
    return [
        pytest.param(example, id=example.section, marks=pytest.mark.slow if is_slow(example) else ())
        for example in EXAMPLES
        if example.is_before is before
    ]


def run(example: Example, directory: Path, device: str) -> None:
    """Run an example in a directory, with x and y on a device, and check y."""
    inline = next(
        other.code for other in EXAMPLES if not other.is_before
    )  # has the source for examples that build a file
    source = re.search(r'source = r"""(.*?)"""', inline, re.DOTALL)
    assert source is not None
    binding = '\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("axpy", &axpy); }\n'
    (directory / "axpy.cu").write_text(source[1] + binding)
    code = example.code
    if "setup(" in code:
        (directory / "setup.py").write_text(code)
        subprocess.run([sys.executable, "setup.py", "build_ext", "--inplace"], cwd=directory, check=True)
        code = (
            f"import sys; sys.path.insert(0, {str(directory)!r}); import axpy_extension; axpy_extension.axpy(x, y, 2.0)"
        )
    program = directory / "example.py"  # a file, because Triton reads the source of the functions that it compiles
    program.write_text(code)
    x, y = torch.randn(1000, device=device), torch.randn(1000, device=device)
    expected = y + 2 * x
    before = Path.cwd()
    os.chdir(directory)
    try:
        exec(compile(code, str(program), "exec"), {"x": x, "y": y, "__name__": "migrating"})
    finally:
        os.chdir(before)
    assert torch.allclose(y, expected, atol=1e-6)
