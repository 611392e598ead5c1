"""The flags of glue: those that ``load_inline`` has chosen for the runtime, with glue's own in their place."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tkjit.compile.flags import RUNTIME
from tkjit.compile.torch_linking import without_own


class GlueFlags(NamedTuple):
    """The words of a glue's command line.

    Parameters
    ----------
    compiler, linker : list of str
        Without the module's name.
    """

    compiler: list[str]
    linker: list[str]


def glue_flags(cflags: str, ldflags: str, own: Iterable[str], of_glue: Iterable[str]) -> GlueFlags | None:
    """The flags of glue by those of another module; None if they are not to be told.

    Parameters
    ----------
    cflags, ldflags : str
        The other module's flags, with its name; its own flags are at the end of ``cflags``.
    own : iterable of str
        These.
    of_glue : iterable of str
        The flags of glue in their place.
    """
    suffix = " ".join(own)
    if not cflags.endswith(suffix) or any(mark in cflags + ldflags for mark in ("\\", '"', "'", "$")):
        return None
    words = [word for word in cflags.removesuffix(suffix).split() if not word.startswith("-DTORCH_EXTENSION_NAME=")]
    _, places = split(words)
    # another machine's, from which the module has come
    if str(RUNTIME) not in places or not all(Path(place).is_dir() for place in places):
        return None
    # a glue asks for nothing of torch's but by the table, and a linker takes half of its time to read these libraries
    linker = [word for word in without_own(ldflags.split()) if not word.startswith(("-l", "-L"))]
    return GlueFlags([*words, *of_glue], linker)


def split(words: Iterable[str]) -> tuple[list[str], list[str]]:
    """Flags, and the directories in which headers are looked for."""
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
