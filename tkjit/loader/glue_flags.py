"""Derives the flags of glue from the flags that torch's ``load_inline`` chose for the runtime."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tkjit.compile.flags import RUNTIME


class GlueFlags(NamedTuple):
    """The flags with which glue is compiled and linked.

    Parameters
    ----------
    compiler, linker : list of str
        The flags for the compiler and for the linker, without the flag that contains the module's name.
    """

    compiler: list[str]
    linker: list[str]


def glue_flags(cflags: str, ldflags: str, own: Iterable[str], of_glue: Iterable[str]) -> GlueFlags | None:
    """Derive the flags of glue from the flags of another module. Return None if that is not possible.

    Parameters
    ----------
    cflags, ldflags : str
        All flags of the other module. The flags that tkjit passed are at the end of ``cflags``.
    own : iterable of str
        The flags that tkjit passed for the other module.
    of_glue : iterable of str
        The flags that replace ``own`` for glue.
    """
    suffix = " ".join(own)
    if not cflags.endswith(suffix) or any(mark in cflags + ldflags for mark in ("\\", '"', "'", "$")):
        return None
    words = [word for word in cflags.removesuffix(suffix).split() if not word.startswith("-DTORCH_EXTENSION_NAME=")]
    _, places = split(words)
    # the module may have been built on another machine, where these directories are elsewhere
    if str(RUNTIME) not in places or not all(Path(place).is_dir() for place in places):
        return None
    # Glue uses only the runtime's table and no symbol of torch, so leave out torch's libraries: reading them would take
    # half of the linker's time.
    linker = [word for word in ldflags.split() if not word.startswith(("-l", "-L"))]
    return GlueFlags([*words, *of_glue], linker)


def split(words: Iterable[str]) -> tuple[list[str], list[str]]:
    """Split the words of a command line into the flags, and the directories to search for headers."""
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
