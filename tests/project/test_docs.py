"""The examples of calling.md, devices.md and errors.md run, and errors.md quotes messages that tkjit prints."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ERRORS = (ROOT / "docs/reference/errors.md").read_text()
# parts that a message fills in; and a prefix that progress lines share
FILLED_IN = re.compile(r"\.\.\.|(?<=tkjit: )")


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("page", "least"), [("howto/calling.md", 11), ("howto/devices.md", 3), ("reference/errors.md", 16)]
)
def test_what_the_page_shows_happens(page, least):
    failed, attempted = doctest.testfile(
        str(ROOT / "docs" / page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert attempted > least and failed == 0


def quoted_texts() -> list[str]:
    """Return the texts in the first columns of the page's tables of errors."""
    tables = re.findall(r"^\| text \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", ERRORS, re.MULTILINE)
    rows = [row for table in tables for row in table.splitlines()]
    return [text for row in rows for text in re.findall(r"`(.+?)`", row.split(" | ")[0])]


def test_the_texts_of_errors_are_the_codes():
    files = (path for path in sorted((ROOT / "tkjit").rglob("*")) if path.suffix in (".py", ".h", ".in"))
    code = "\n".join(path.read_text() for path in files)
    plain = re.sub(r'"\s*f?"', "", code).replace('\\"', '"').replace("\\'", "'")
    texts = quoted_texts()
    assert len(texts) > 90
    assert [text for text in texts if not all(part.strip(" ,") in plain for part in FILLED_IN.split(text))] == []
