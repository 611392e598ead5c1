"""Runs mypy on files of a test's own, as a user's project would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def mypy(cache: str, directory: Path, path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What mypy says, without a configuration.

    Parameters
    ----------
    cache : str
        The name of the cache, in the project's own: reading torch takes 15 s, and is done once.
    path : str
        Where mypy looks for modules.
    """
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=", "--python-version=3.10", *arguments],
        cwd=directory,
        env={**os.environ, "MYPYPATH": path, "MYPY_CACHE_DIR": str(ROOT / ".mypy_cache" / f"tests_{cache}")},
        capture_output=True,
        text=True,
    )
