"""Helpers for benchmarks: table rows, fresh processes, medians of alternating runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Row:
    """One comparison.

    Parameters
    ----------
    ours, theirs : float
        Medians, in ``unit``; ``theirs`` is None if there is no peer.
    limit : float or None
        The largest ratio that the project allows itself; without a peer, the largest value in ``unit``.
    """

    what: str
    peer: str
    ours: float
    theirs: float | None
    unit: str
    limit: float | None = None

    @property
    def ratio(self) -> float | None:
        return self.ours / self.theirs if self.theirs else None

    @property
    def holds(self) -> bool:
        measured = self.ours if self.ratio is None else self.ratio
        return self.limit is None or measured <= self.limit


def interleaved(functions: Sequence[Callable[[], float]], runs: int) -> list[float]:
    """The median of each function's results; the functions take turns, so that a slow minute affects all of them."""
    figures: list[list[float]] = [[] for _ in functions]
    for _ in range(runs):
        for kept, function in zip(figures, functions, strict=True):
            kept.append(function())
    return [median(kept) for kept in figures]


def timed(function: Callable[[], object]) -> float:
    """The duration of one call in seconds."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def in_fresh_process(code: str, **environment: str) -> float:
    """Run a snippet in a new interpreter, and return the last number that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        # with bytecode, like an installed package
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPATH": str(ROOT), **environment},
    )
    if done.returncode != 0:
        raise RuntimeError(f"{code}\n{done.stderr}")
    return float(done.stdout.split()[-1])


def start_of_python() -> float:
    """The duration of ``python -c pass`` in milliseconds, a measure of the machine's speed for limits."""
    return timed(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)) * 1e3


def report(rows: Sequence[Row], json_file: Path | None) -> None:
    """Print the table, and write it as JSON if a file is given."""
    table = Table("", "tkjit", "peer", "peer's", "ratio", "limit", box=None, header_style="bold")
    for row in rows:
        theirs = "" if row.theirs is None else f"{row.theirs:.3g} {row.unit}"
        ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
        unit = f" {row.unit}" if row.ratio is None else ""
        limit = "" if row.limit is None else f"{row.limit:.3g}{unit}{'' if row.holds else '  over'}"
        table.add_row(row.what, f"{row.ours:.3g} {row.unit}", row.peer, theirs, ratio, limit)
    Console(width=160).print(table)
    if json_file:
        content = [{**asdict(row), "ratio": row.ratio, "holds": row.holds} for row in rows]
        json_file.write_text(json.dumps(content, indent=1))


def commit_text() -> str:
    """Return the current commit, with a suffix if there are changes."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
