"""Compares pictures that programs draw with those that the documentation shows."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib.image
import numpy as np


def same_picture(one: Path, other: Path) -> bool:
    """Return whether two pictures look the same; their fonts may differ."""
    if one.suffix == ".svg":
        words = [re.findall(r"<text[^>]*>(.*?)</text>", path.read_text()) for path in (one, other)]
        return words[0] == words[1]
    first, second = (matplotlib.image.imread(path) for path in (one, other))
    return first.shape == second.shape and float(np.abs(first - second).mean()) < 0.02
