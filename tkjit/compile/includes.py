"""Finds every header that a source may include, regardless of ``#if``.

NVRTC does not report the files that it reads. So tkjit follows every include in the source, and then every include in
those headers, even inside a false ``#if``. The result may contain more files than a compiler would read, but never
fewer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from tkjit.system import files

_SPLICE = re.compile(r"\\[ \t]*\r?\n")
# Matches an include, which may also follow the end of a comment, and may have comments between its words.
_LINE = re.compile(
    r"^(?:[^\n]*?\*/)?[ \t\v\f]*(?:#|%:)(?:[ \t\v\f]|/\*[^\n]*?\*/)*(?:include|include_next|import)\b([^\n]*)",
    re.MULTILINE,
)
_ASKED = re.compile(r"__has_include(?:_next)?[^\n(]*\(([^\n]*)")
_NAME = re.compile(r'<([^>\n]+)>|"([^"\n]+)"')


class ComputedInclude(Exception):
    """Raised for an include that names its header with a macro, which only a preprocessor can expand."""


def included(text: str) -> tuple[tuple[bool, str], ...]:
    """Return the names that a text includes, and whether each name is in quotes.

    Raises
    ------
    ComputedInclude
        If an include is given by a macro. The error's text is the include.
    """
    names = []
    spliced = _SPLICE.sub("", text)
    for line in _LINE.findall(spliced):
        found = _NAME.findall(line)
        if not found and (computed := line.strip()):
            raise ComputedInclude(computed)
        names += found
    if "__has_include" in spliced:
        names += [name for line in _ASKED.findall(spliced) for name in _NAME.findall(line)]
    return tuple(dict.fromkeys((bool(quoted), (angled or quoted).strip()) for angled, quoted in names))


def included_anywhere(text: str, search: Sequence[Path]) -> frozenset[str]:
    """Return the names in all includes of a text and of the headers that it may include, even names of missing files.

    Parameters
    ----------
    search : sequence of Path
        The directories to search for these headers.
    """
    names = set(_without_computed(text))
    for path in closure(text, search, skips_computed=True):
        names |= set(_included_by(str(path), path.stat().st_mtime_ns, True))
    return frozenset(name for _, name in names)


def closure(
    text: str, search: Sequence[Path], trusted: Iterable[Path] = (), *, skips_computed: bool = False
) -> tuple[Path, ...]:
    """Return every existing file that a text may include, directly or through other files.

    Parameters
    ----------
    search : sequence of Path
        The directories that a compiler searches for headers. If a name is in several directories, all these files are
        returned.
    trusted : iterable of Path
        Directories of a toolkit. Computed includes of the toolkit are ignored, because only other compilers use them.
    skips_computed : bool
        Whether to ignore all computed includes, instead of raising an error.

    Raises
    ------
    ComputedInclude
        If a file outside the trusted directories has a computed include.
    """
    prefixes = tuple(f"{directory}/" for directory in trusted)
    found: dict[str, None] = {}
    waiting = [("", _without_computed(text) if skips_computed else included(text))]
    while waiting:
        own, names = waiting.pop()
        for is_quoted, name in names:
            for place in [*([own] if is_quoted and own else []), *map(str, search)]:
                path = os.path.normpath(os.path.join(place, name))
                if path in found or not os.path.isfile(path):
                    continue
                found[path] = None
                names_there = _included_by(path, os.stat(path).st_mtime_ns, skips_computed or path.startswith(prefixes))
                waiting.append((os.path.dirname(path), names_there))
    return tuple(sorted(map(Path, found)))


@lru_cache(maxsize=4096)
def _included_by(path: str, _time_ns: int, is_trusted: bool) -> tuple[tuple[bool, str], ...]:
    text = files.read(path, follow=True).decode(errors="replace")
    try:
        return included(text)
    except ComputedInclude:
        if not is_trusted:
            raise
        return _without_computed(text)


def _without_computed(text: str) -> tuple[tuple[bool, str], ...]:
    return included("\n".join(line for line in _SPLICE.sub("", text).split("\n") if _NAME.search(line)))
