"""Builds and runs exported torch packages in separate processes, without installing them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import tkjit

PACKAGE = "layers"


def export(output: Path, *kernels: Any, binding: str = "stable", archs: tuple[str, ...] = ("cpu",)) -> Path:
    """Write the source of a torch extension with these kernels."""
    options = {"name": PACKAGE, "output": output, "archs": archs, "binding": binding, "types": ["float32"]}
    return tkjit.export(*kernels, languages=["torch"], **options)


def build(directory: Path, **environment: str) -> Path:
    """Build a package in place with setuptools, and return the directory to import it from."""
    target = directory / "built"
    command = [sys.executable, "setup.py", "-q", "build_py", "-d", str(target), "build_ext", "-b", str(target)]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return target


def run(built: Path, *command: str) -> str:
    """Run Python with a built package, and return its output."""
    environment = {**os.environ, "PYTHONPATH": str(built), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=environment, cwd=built)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout
