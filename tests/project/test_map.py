"""The documents name files and functions that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACE = re.compile(
    r"`((?:\w+/)+\w+\.(?:py|h|cpp|cuh))(?::([\w.:]+))?`"
)  # with a directory: `loader/loader.py:Loader.open`
PLACEHOLDER = re.compile(r"\b[A-Z]+\.py")  # kernel_sources/NAME.py


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_map_has_places():
    assert len(PLACE.findall((ROOT / "docs/explanation/architecture.md").read_text())) > 50


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_names_exists(page):
    missing = []
    for path, name in PLACE.findall(page.read_text()):
        if PLACEHOLDER.search(path):
            continue
        files = [
            place for place in (ROOT / path, ROOT / "tkjit" / path, ROOT / "examples/package" / path) if place.is_file()
        ]
        last = re.split(r"[.:]+", name)[-1]
        if not files or not re.search(rf"\b{last}\b", files[0].read_text()):
            missing.append(f"{path}:{name}")
    assert missing == []
