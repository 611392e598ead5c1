"""The README's example kernel runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.compiles
README = (Path(__file__).parents[2] / "README.md").read_text()


def test_your_first_kernel_runs():
    own = README.split("## Your first kernel")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", own, re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 22
    exec(code, {"__name__": "__main__"})  # it ends with an assertion against its reference
