"""Searches ``PATH`` for a usable C++ compiler."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tkjit.compile.tool_memo import ToolMemo
from tkjit.errors import ToolchainError

_NAMES = ("g++", "c++", "clang++")
_VERSIONED = r"(g\+\+|c\+\+|clang\+\+)-(\d+(?:\.\d+)*)"
# The names of the memo's facts about a compiler: its version if it is usable, the reason if it is not, and whether a
# warning has shown the reason to the user.
_USABLE, _REJECTED, _TOLD = "usable version", "rejected", "told"


class Rejected(NamedTuple):
    """A compiler that cannot be used.

    Parameters
    ----------
    reason : str
        Why it cannot be used: ``is version 9; g++ 11 or newer is needed``.
    """

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path} {self.reason}"


class Found(NamedTuple):
    """The result of a search.

    Parameters
    ----------
    path : Path or None
        The first usable compiler, if there is one.
    rejected : list of Rejected
        The unusable compilers that come before it.
    """

    path: Path | None
    version: str
    rejected: list[Rejected]


class CxxSearch:
    """Finds the first usable compiler among the candidates.

    Each compiler is checked once, and the memo keeps its version or the reason why it was rejected. If a compiler's
    file changes, that compiler is checked again. While no compiler is usable, each search repeats all checks, because
    the user may have installed a package that a compiler lacked.
    """

    def __init__(self, search_path: str, memo: ToolMemo) -> None:
        self._search_path, self._memo = search_path, memo

    def find(self, *, again: bool = False) -> Found:
        """Search for a compiler. If ``again`` is true, ignore earlier rejections and check every candidate."""
        ask = _checked_version if again else self._ask
        rejected: list[Rejected] = []
        for path in candidates(self._search_path):
            try:
                if reason := why_not_a_program(path):
                    raise ToolchainError(reason)
                found = Found(path, self._memo.version(path, partial(ask, path), _USABLE), rejected)
            except ToolchainError as error:
                rejected.append(Rejected(path, str(error)))
                continue
            for program in _programs(rejected):
                self._memo.fact(program.path, _REJECTED, partial(str, program.reason))
            return found
        return Found(None, "", rejected)

    def _ask(self, path: Path) -> str:
        """Return a compiler's version. Raise an error if it is unusable, or if the memo has a reason to reject it."""
        if _REJECTED in (known := self._memo.known(path)):
            raise ToolchainError(str(known[_REJECTED]))
        return _checked_version(path)

    def not_told_yet(self, found: Found) -> Rejected | None:
        """Return the first rejected program, and remember that the user will be told about it.

        Return None if there is no such program, no usable compiler was found, or a process has already reported it.
        """
        first = next(iter(_programs(found.rejected)), None)
        if found.path is None or first is None or _TOLD in self._memo.known(first.path):
            return None
        self._memo.fact(first.path, _TOLD, lambda: "yes")
        return first


def version(path: Path, memo: ToolMemo) -> str:
    """Return a compiler's version. Each compiler is checked only once, unless its file changes.

    Raises
    ------
    ToolchainError
        If the compiler is unusable. The text contains only the reason.
    """
    return memo.version(path, partial(_checked_version, path), _USABLE)


def _checked_version(path: Path) -> str:
    from tkjit.compile.cxx_check import checked_version  # not needed in a warm process

    return checked_version(path)


def _programs(rejected: list[Rejected]) -> list[Rejected]:
    """Return the rejected files that are programs. Like a shell, tkjit silently skips all others, except in doctor."""
    return [one for one in rejected if not why_not_a_program(one.path)]


def candidates(search_path: str) -> Iterator[Path]:
    """Yield the absolute path of every file on ``PATH`` with the name of a C++ compiler, each file once.

    Names without a version come first, each in all directories. Versioned names follow, newest first. tkjit has to list
    the directories to find versioned names, and does so only if the caller iterates that far.
    """
    seen = set()
    for path in _places(search_path):
        # Path.is_dir raises an error for a link into a directory that this user may not read
        if os.path.lexists(path) and not os.path.isdir(path):  # noqa: PTH112
            real = os.path.realpath(path)
            # ccache is one file with many names, each for another compiler, so its name is part of its identity
            identity = real if "++" in Path(real).name else (real, path.name)
            if identity not in seen:
                seen.add(identity)
                yield path.absolute()


def why_not_a_program(path: Path) -> str:
    """Return why a file cannot be run, or an empty text if it can."""
    if os.access(path, os.X_OK):
        return ""
    is_there = os.access(path, os.F_OK)
    return "is not executable" if is_there else f"is a link to {os.path.realpath(path)}, which cannot be found"


def searched(search_path: str, taken: Path | None) -> list[str]:
    """Return all paths whose appearance, removal or change could make the search choose a file other than ``taken``."""
    tried = []
    for path in _unversioned(search_path):
        tried.append(str(path))
        if taken is not None and path.name == taken.name and path.absolute() == taken:
            return tried
    # the modification time of a directory changes when a name appears in it or vanishes
    return [*tried, *_directories(search_path), *map(str, _versioned(search_path))]


def _directories(search_path: str) -> list[str]:
    """Return the directories on ``PATH``. As in a shell, an empty name means the working directory."""
    return [directory or "." for directory in search_path.split(os.pathsep)] if search_path else []


def _places(search_path: str) -> Iterator[Path]:
    yield from _unversioned(search_path)
    yield from _versioned(search_path)


def _unversioned(search_path: str) -> Iterator[Path]:
    return (Path(directory, name) for name in _NAMES for directory in _directories(search_path))


def _versioned(search_path: str) -> list[Path]:
    found = []
    for directory in _directories(search_path):
        with suppress(OSError):
            for path in Path(directory).iterdir():
                if match := re.fullmatch(_VERSIONED, path.name):
                    newest_first = [-int(part) for part in match[2].split(".")]
                    found.append((_NAMES.index(match[1]), newest_first, path))
    return [path for *_, path in sorted(found, key=lambda one: one[:2])]
