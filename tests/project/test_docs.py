"""Runs the examples of docs/howto/calling.md and docs/howto/devices.md."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

pytestmark = pytest.mark.compiles
DOCS = Path(__file__).parents[2] / "docs/howto"


@pytest.mark.parametrize(("page", "least"), [("calling.md", 15), ("devices.md", 3)])
def test_what_the_page_shows_happens(page, least):
    failed, attempted = doctest.testfile(
        str(DOCS / page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert attempted > least and failed == 0
