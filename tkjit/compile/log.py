"""Finds the error to show first in a compiler's log."""

from __future__ import annotations

import re
from pathlib import Path

# g++ and clang: file:line:column: error: text; nvcc: file(line): error: text
_LOCATED = re.compile(
    r"^(?P<file>[^\s:(][^:(\n]*)(?::\d+(?::\d+)?|\(\d+\)): (?:fatal |catastrophic )?[Ee]rror\b[^\n]*", re.MULTILINE
)
# ptxas, nvcc itself, the linker
_OTHER = re.compile(
    r"^(?:ptxas[^\n]*?\berror *:|(?:ptxas|nvcc|nvlink) *fatal *:|[^\n]*\bld: (?!warning)|[^\n]*undefined reference)"
    r"[^\n]*",
    re.MULTILINE,
)


def first_error(log: str, source: Path | None) -> str:
    """The first error in the user's own file, else the first of all, with the lines that show it."""
    located = list(_LOCATED.finditer(log))
    own = [error for error in located if source and Path(error["file"]).name == source.name]
    error = next(iter(own or located), None) or _OTHER.search(log)
    if error is None:
        return (log.strip().splitlines() or ["the compiler failed without printing an error"])[0]
    shown = log[error.start() :].splitlines()[:3]
    if error in own:
        shown[0] = shown[0].replace(error["file"], str(source), 1)
    # the following lines may be g++'s include stack of a header in its notes
    context = [line for line in shown[1:] if line.startswith(" ") and not line.lstrip().startswith("from ")]
    return "\n".join([shown[0], *context])
