"""Builds a static library to link with."""

from __future__ import annotations

import subprocess
from pathlib import Path


def write_static_library(directory: Path, value: int) -> None:
    """Write libvalue.a, whose function ``int value()`` returns a number."""
    (directory / "value.cpp").write_text(f"int value() {{ return {value}; }}\n")
    subprocess.run("g++ -O2 -fPIC -c value.cpp -o value.o".split(), cwd=directory, check=True)
    (directory / "libvalue.a").unlink(missing_ok=True)
    subprocess.run("ar rcsD libvalue.a value.o".split(), cwd=directory, check=True)
