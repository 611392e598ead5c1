"""Fills in the templates of files that every export has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path


def filled(directory: Path, words: Mapping[str, str]) -> dict[str, str]:
    """Fill in a directory of templates, and return the texts by their paths in the directory.

    Parameters
    ----------
    words : mapping
        Maps each placeholder, a word in capitals such as ``LIBRARY``, to its replacement.
    """
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): _fill(path.read_text(encoding="utf-8"), words) for path in paths}


def _fill(text: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        # do not replace a placeholder inside a longer word, such as LIBRARY in TKJIT_LIBRARY
        text = re.sub(rf"(?<![A-Z_]){word}(?![A-Z])", value.replace("\\", r"\\"), text)
    return text
