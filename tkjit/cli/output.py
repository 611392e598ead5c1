"""Prints the output of commands: aligned columns for people, JSON for programs."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_model_arch(parser: argparse.ArgumentParser) -> None:
    """An option that ``main`` puts into the environment, where processes that are started find it too."""
    parser.add_argument("--model-arch", default="", metavar="80", help="the GPU architecture that the simulator is")


def claim_standard_streams() -> None:
    """Open what of the standard streams was closed: the next file would get its number, and compilers write to that."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(opened, True)
    os.close(opened)
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - as long as the process
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - as long as the process


def print_in_any_encoding() -> None:
    """Escape what the encoding of a stream lacks: docstrings and paths have any letters."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def give_up_output() -> None:
    """Let what is still to be printed go nowhere: Python prints it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_json(content: Any) -> None:
    print(json.dumps(content, indent=1))


def print_columns(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of equal length, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def size_text(size_bytes: float) -> str:
    """``1.5 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1024 or unit == "GiB":
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    raise AssertionError


def age_text(since: float) -> str:
    """``3 h``: the time since a moment, roughly."""
    seconds = max(0.0, time.time() - since)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
