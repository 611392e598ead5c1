"""``docs/howto/arguments.md``: the kernel of every section runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.compiles
PAGE = (Path(__file__).parents[2] / "docs/howto/arguments.md").read_text()
INTRODUCTION, *PARTS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
SECTIONS = dict(part.split("\n", 1) for part in PARTS)
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_runs(section):
    (imports,) = BLOCK.findall(INTRODUCTION)
    (code,) = BLOCK.findall(SECTIONS[section])
    assert "assert " in code
    exec(imports + code, {"__name__": "an_example"})
