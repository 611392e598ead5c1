"""Finds the error to show first in a compiler's log."""

from __future__ import annotations

import re
from pathlib import Path

# Matches the errors of g++ and clang (file:line:column: error: text) and of nvcc (file(line): error: text).
_LOCATED = re.compile(
    r"^(?P<file>[^\s:(][^:(\n]*)(?::\d+(?::\d+)?|\(\d+\)): (?:fatal |catastrophic )?[Ee]rror\b[^\n]*", re.MULTILINE
)
# Matches the errors of ptxas, nvcc itself and the linker.
_OTHER = re.compile(
    r"^(?:ptxas[^\n]*?\berror *:|(?:ptxas|nvcc|nvlink) *fatal *:|[^\n]*\bld: (?!warning)|[^\n]*undefined reference)"
    r"[^\n]*",
    re.MULTILINE,
)


def first_error(log: str, source: Path | None) -> str:
    """Return the first error in the user's own file, else the first error in the log, with the lines that show it."""
    located = list(_LOCATED.finditer(log))
    own = [error for error in located if source and Path(error["file"]).name == source.name]
    error = next(iter(own or located), None) or _OTHER.search(log)
    if error is None:
        return (log.strip().splitlines() or ["the compiler failed without printing an error"])[0]
    shown = log[error.start() :].splitlines()[:3]
    if error in own:
        shown[0] = shown[0].replace(error["file"], str(source), 1)
    # omit lines such as "from launcher.cu:3:", which belong to g++'s include stack
    context = [line for line in shown[1:] if line.startswith(" ") and not line.lstrip().startswith("from ")]
    return "\n".join([shown[0], *context])
