"""Derives the flags of glue from those that ``load_inline`` chose for the runtime."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tkjit.compile.flags import RUNTIME


class GlueFlags(NamedTuple):
    """The flags in the command line of glue.

    Parameters
    ----------
    compiler, linker : list of str
        The flags for each, without the one that contains the module's name.
    """

    compiler: list[str]
    linker: list[str]


def glue_flags(cflags: str, ldflags: str, own: Iterable[str], of_glue: Iterable[str]) -> GlueFlags | None:
    """Derive the flags of glue from those of another module; None if that is not possible.

    Parameters
    ----------
    cflags, ldflags : str
        All flags of the other module. Those that tkjit passed are at the end of ``cflags``.
    own : iterable of str
        The flags that tkjit passed for the other module.
    of_glue : iterable of str
        The flags that replace them for glue.
    """
    suffix = " ".join(own)
    if not cflags.endswith(suffix) or any(mark in cflags + ldflags for mark in ("\\", '"', "'", "$")):
        return None
    words = [word for word in cflags.removesuffix(suffix).split() if not word.startswith("-DTORCH_EXTENSION_NAME=")]
    _, places = split(words)
    # the module may come from another machine, where these directories are elsewhere
    if str(RUNTIME) not in places or not all(Path(place).is_dir() for place in places):
        return None
    # glue uses no symbol of torch, only the runtime's table, and reading torch's libraries is half of the linker's time
    linker = [word for word in ldflags.split() if not word.startswith(("-l", "-L"))]
    return GlueFlags([*words, *of_glue], linker)


def split(words: Iterable[str]) -> tuple[list[str], list[str]]:
    """Split the words of a command line into flags and the directories to search for headers."""
    flags, directories = [], []
    following = iter(words)
    for word in following:
        if word == "-isystem":
            directories.append(next(following, ""))
        elif word.startswith("-I"):
            directories.append(word[2:])
        else:
            flags.append(word)
    return flags, directories
