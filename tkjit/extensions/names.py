"""The identifiers of a source and of its headers, by which the stand-ins for torch's headers are made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from tkjit.compile.includes import closure
from tkjit.system import files

_WORD = re.compile(rb"[A-Za-z_]\w*")
_USES_TORCH = re.compile(rb"\b(?:torch|at|c10|ATen|Tensor)\b")


def words_of(text: str, search: Sequence[Path]) -> frozenset[str]:
    """The identifiers of a source and of each header in some directories that it may include and that mentions torch.

    Conditions and comments are not looked at: a word too many costs a declaration.

    Examples
    --------
    >>> sorted(words_of("return x.sum();", ()))
    ['return', 'sum', 'x']
    """
    found = set(_words(text.encode()))
    for path in closure(text, search, trusted=search):
        found |= _words_in(str(path), path.stat().st_mtime_ns)
    return frozenset(word.decode() for word in found)


@lru_cache(maxsize=4096)
def _words_in(path: str, _time_ns: int) -> frozenset[bytes]:
    content = files.read(path, follow=True)
    return _words(content) if _USES_TORCH.search(content) else frozenset()


def _words(content: bytes) -> frozenset[bytes]:
    return frozenset(_WORD.findall(content))
