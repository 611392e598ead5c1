"""Sources whose headers are adapted too: preprocessed first, then adapted as one text, then compiled.

Where the source alone needs adapting, rendering has done so, and none of this runs.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tkjit.compile.flags import INCLUDE, PACKAGE, SIMULATOR, Flags
from tkjit.system import files

if TYPE_CHECKING:
    from tkjit.compile.compiler import Step

_TRANSLATOR = (
    *sorted((PACKAGE / "ptx").glob("*.py")),
    *(
        PACKAGE / "source" / f"{name}.py"
        for name in ("asm", "keywords", "launches", "lexer", "preprocessed", "shared_memory")
    ),
)
_PREPROCESSED = "preprocessed.ii"
# what tkjit and the simulator have, and the standard library: names without a suffix, and those of C
_OWN_HEADERS = re.compile(
    r"tkjit/.*|cuda\w*\.h|cooperative_groups\S*|device_launch_parameters\.h|library_types\.h|\w+"
    r"|(?:assert|float|inttypes|limits|math|stdbool|stddef|stdint|stdio|stdlib|string|time)\.h"
)
# what is copied or multiplied with these lies in the block's window, and of static variables only translated ones do
_IN_WINDOW = re.compile(r"tkjit/(?:tensor_map|wgmma)\.cuh")
_STATIC_SHARED = re.compile(r"(?<!extern )\b__shared__\b")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">]+)[">]', re.MULTILINE)


def may_be_needed(text: str) -> bool:
    """Whether a source has inline PTX, or headers that may have what only the whole text shows."""
    names = _INCLUDE.findall(text)
    return "asm" in text or any(not _OWN_HEADERS.fullmatch(name) or _IN_WINDOW.fullmatch(name) for name in names)


def is_needed(text: str, flags: Flags) -> bool:
    """Whether a source has inline PTX, or includes a header that has what only the whole text shows.

    tkjit's own headers and the system's have nothing of the kind, but some need static variables in the window.
    """
    if not may_be_needed(text):
        return False
    from tkjit.source.preprocessed import needs_adapting

    if needs_adapting(text, is_header=False):
        return True
    searched = [path for path in flags.include_dirs if path != SIMULATOR and not path.is_relative_to(INCLUDE)]
    waiting: list[tuple[str, Path | None]] = [(text, None)]
    seen: set[Path] = set()
    has_static = needs_window = False
    while waiting:
        own, directory = waiting.pop()
        names = _INCLUDE.findall(own)
        has_static |= _STATIC_SHARED.search(own) is not None
        needs_window |= any(map(_IN_WINDOW.fullmatch, names))
        if has_static and needs_window:
            return True
        for name in names:
            places = [*([directory] if directory else []), *searched]
            path = next((path for each in places if (path := (each / name).resolve()).is_file()), None)
            if path is None or path in seen:
                continue
            seen.add(path)
            header = path.read_text(encoding="utf-8", errors="replace")
            if needs_adapting(header, is_header=True):
                return True
            waiting.append((header, path.parent))
    return False


@cache
def digest() -> str:
    """Of the translator, a part of the key of what it may have translated: no rendered text has its work."""
    return hashlib.sha256(b"\0".join(files.read(path) for path in _TRANSLATOR)).hexdigest()[:16]


def translated(line: list[str], source: Path) -> list[Step]:
    """The steps in the place of a command that compiles a C++ source: ``[..., "-x", "c++", source, ...]``."""
    staging = source.parent
    preprocessed = staging / _PREPROCESSED
    at = line.index("-x")
    depfile = line.index("-MF")
    flags = [flag for flag in line[1 : min(at, depfile - 1)] if not flag.startswith("-Wl,")]
    ptx = ["-DTKJIT_SIM_TRANSLATES", "-include", str(SIMULATOR / "ptx" / "ptx.h")]
    preprocess = [line[0], *ptx, *flags, "-E", "-MD", "-MF", line[depfile + 1], "-x", "c++", str(source)]
    kept = [*line[: depfile - 1], *line[depfile + 2 : at], "-x", "c++-cpp-output", str(preprocessed), *line[at + 3 :]]

    def adapt() -> None:
        from tkjit.source.preprocessed import adapt_preprocessed

        files.write(preprocessed, adapt_preprocessed(files.read(preprocessed).decode(errors="replace")))

    return [[*preprocess, "-o", str(preprocessed)], adapt, kept, preprocessed.unlink]


def repair(log: str, staging: Path) -> bool:
    """Add the keywords that the compiler misses in the adapted text; whether there were any."""
    from tkjit.source.keywords import repaired

    preprocessed = staging / _PREPROCESSED
    if not preprocessed.exists():
        return False
    text = repaired(files.read(preprocessed).decode(errors="replace"), log)
    if text is None:
        return False
    files.write(preprocessed, text)
    return True
