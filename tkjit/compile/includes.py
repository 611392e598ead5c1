"""Finds every header that a source may include, whatever its conditions say.

NVRTC does not say what it reads. So a header counts as read if any file that counts has an ``#include`` of it, under
whichever ``#if``: more than a compiler would read, and never less.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from tkjit.system import files

_SPLICE = re.compile(r"\\[ \t]*\r?\n")
# behind the end of a comment too, and with comments between its words
_LINE = re.compile(
    r"^(?:[^\n]*?\*/)?[ \t\v\f]*(?:#|%:)(?:[ \t\v\f]|/\*[^\n]*?\*/)*(?:include|include_next|import)\b([^\n]*)",
    re.MULTILINE,
)
_ASKED = re.compile(r"__has_include(?:_next)?[^\n(]*\(([^\n]*)")
_NAME = re.compile(r'<([^>\n]+)>|"([^"\n]+)"')


class ComputedInclude(Exception):
    """A header whose name is a macro's: which one it is only a preprocessor knows."""


def included(text: str) -> tuple[tuple[bool, str], ...]:
    """The names in a text's includes, with whether each is in quotes.

    Raises
    ------
    ComputedInclude
        With the text of an include whose name is a macro.
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
    """The names that a text and the headers that it may include have in their includes, found or not.

    Parameters
    ----------
    search : sequence of Path
        The directories in which these headers are looked for.
    """
    names = set(_without_computed(text))
    for path in closure(text, search, skips_computed=True):
        names |= set(_included_by(str(path), path.stat().st_mtime_ns, True))
    return frozenset(name for _, name in names)


def closure(
    text: str, search: Sequence[Path], trusted: Iterable[Path] = (), *, skips_computed: bool = False
) -> tuple[Path, ...]:
    """Every file that a text may include, and those files include in turn, that exists.

    Parameters
    ----------
    search : sequence of Path
        The directories in which a compiler looks for headers. A name that several have counts in all of them.
    trusted : iterable of Path
        Directories of a toolkit, whose own computed includes are about compilers that read other files there.
    skips_computed : bool
        Whether to leave out every header whose name is a macro's, instead of raising an error.

    Raises
    ------
    ComputedInclude
        If a file outside the trusted directories includes what a macro names.
    """
    whole = tuple(f"{directory}/" for directory in trusted)
    found: dict[str, None] = {}
    waiting = [("", _without_computed(text) if skips_computed else included(text))]
    while waiting:
        beside, names = waiting.pop()
        for is_quoted, name in names:
            for place in [*([beside] if is_quoted and beside else []), *map(str, search)]:
                path = os.path.normpath(os.path.join(place, name))
                if path in found or not os.path.isfile(path):
                    continue
                found[path] = None
                names_there = _included_by(path, os.stat(path).st_mtime_ns, skips_computed or path.startswith(whole))
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
