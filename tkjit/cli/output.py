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
    parser.add_argument("--json", action="store_true", help="print the output as JSON")


def add_model_arch(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--model-arch``. ``main`` stores it in the environment, so child processes inherit it."""
    parser.add_argument(
        "--model-arch",
        default="",
        metavar="80",
        help="GPU architecture that the simulator imitates (default: TKJIT_MODEL_ARCH, or the newest)",
    )


def claim_standard_streams() -> None:
    """Open ``/dev/null`` in place of closed standard streams.

    Otherwise the next file to be opened would get the descriptor of a closed stream, and compilers would write their
    output to that file.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(opened, True)
    os.close(opened)
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - open until the process ends
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - open until the process ends


def print_in_any_encoding() -> None:
    """Escape characters that a stream cannot encode, because docstrings and paths may contain any character."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def give_up_output() -> None:
    """Discard the buffered output; otherwise Python would try to write it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_json(content: Any) -> None:
    print(json.dumps(content, indent=1))


def print_columns(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of equal length, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def size_text(size_bytes: float) -> str:
    """Format a size, for example as ``1.5 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1024 or unit == "GiB":
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    raise AssertionError


def age_text(since: float) -> str:
    """Format the approximate time that has passed since ``since``, for example as ``3 h``."""
    seconds = max(0.0, time.time() - since)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def counted(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> counted(1, "variant"), counted(0, "variant"), counted(2, "entry", "entries")
    ('1 variant', '0 variants', '2 entries')
    """
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
