"""Runs mypy on a test's files, as a user's project would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def mypy(cache: str, directory: Path, path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run mypy without a configuration file.

    Parameters
    ----------
    cache : str
        The name of a cache in the project's own cache directory; without it, each run would read torch for 15 s.
    path : str
        The search path for modules.
    """
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=", "--python-version=3.10", *arguments],
        cwd=directory,
        env={**os.environ, "MYPYPATH": path, "MYPY_CACHE_DIR": str(ROOT / ".mypy_cache" / f"tests_{cache}")},
        capture_output=True,
        text=True,
    )
