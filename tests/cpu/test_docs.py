"""docs/calling.md: what it shows is what happens."""

from __future__ import annotations

import doctest
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_what_the_page_shows_happens():
    failed, attempted = doctest.testfile(
        str(DOCS / "calling.md"), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert attempted > 15 and failed == 0
