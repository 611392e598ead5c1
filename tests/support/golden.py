"""Compares rendered texts with golden files."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest


def compare(golden: Path, text: str, request: pytest.FixtureRequest) -> None:
    """Compare a text with its golden file, or update the file if pytest runs with --update-golden."""
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    expected = golden.read_text() if golden.exists() else ""
    if text != expected:
        lines = (t.splitlines(keepends=True) for t in (expected, text))
        diff = "".join(difflib.unified_diff(*lines, golden.name, "rendered now"))
        pytest.fail(f"{diff}\nIf the new text is right, run `make golden` to update the files.", pytrace=False)
