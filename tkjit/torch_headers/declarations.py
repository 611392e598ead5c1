"""Writes the declarations that precede a source, based on the identifiers in it and in its headers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from tkjit.compile.includes import closure
from tkjit.spec import Source, Spec
from tkjit.system import files
from tkjit.torch_headers.operators import declarations_for

_WORD = re.compile(rb"[A-Za-z_]\w*")
_USES_TORCH = re.compile(rb"\b(?:torch|c10|ATen|Tensor)\b|\bat::")

_OPERATOR_HEADER = re.compile(r"ATen/ops/\w+\.h")
# for each of these words in a source, a macro makes the stand-ins include more
_MACROS = ("complex", "cublas", "torch_library")
# a module's init function without PyMODINIT_FUNC would be hidden, because sources are compiled with hidden visibility
_MODULE = re.compile(r"\bPyInit_\w+(?=\s*\()")
_EXPORTED = 'extern "C" __attribute__((visibility("default"))) struct _object* {}();\n'


def declarations(source: str, search: Sequence[Path]) -> str:
    """Return the lines before a source: macros for the stand-ins, and the operators of torch that the source mentions.

    Parameters
    ----------
    search : sequence of Path
        The directories of the source's own headers.
    """
    words = words_of(source, search)
    everything = " ".join(words).lower()
    macros = [f"#define TKJIT_TORCH_{word.removeprefix('torch_').upper()}\n" for word in _MACROS if word in everything]
    return "".join([*macros, *map(_EXPORTED.format, dict.fromkeys(_MODULE.findall(source)))]) + declarations_for(words)


def write_operator_headers(included: Iterable[str], directory: Path) -> None:
    """Write a stand-in for each included header of a single operator (``ATen/ops/NAME.h``).

    torch has 1,300 such headers. Their stand-ins are all the same, so only those that a source includes are written.
    """
    for name in filter(_OPERATOR_HEADER.fullmatch, included):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, "#include <tkjit/torch/tensor.h>\n")


def declarations_of_spec(spec: Spec, source: Source) -> str:
    """Return the declarations before a kernel's source in its launcher; empty unless the spec uses torch's headers."""
    if all(library.name != "torch" for library in spec.headers):
        return ""
    own = (source.path.parent,) if source.path else ()
    return declarations(source.read(), (*own, *spec.include_dirs))


def words_of(text: str, search: Sequence[Path]) -> frozenset[str]:
    """Return the identifiers in a source, and in each header that it may include and that mentions torch.

    Preprocessor conditions and comments are ignored, because an extra word costs only an extra declaration.

    Examples
    --------
    >>> sorted(words_of("return x.sum();", ()))
    ['return', 'sum', 'x']
    """
    found = set(_words(text.encode()))
    for path in closure(text, search, skips_computed=True):
        found |= _words_in(str(path), path.stat().st_mtime_ns)
    return frozenset(word.decode() for word in found)


@lru_cache(maxsize=4096)
def _words_in(path: str, _time_ns: int) -> frozenset[bytes]:
    content = files.read(path, follow=True)
    return _words(content) if _USES_TORCH.search(content) else frozenset()


def _words(content: bytes) -> frozenset[bytes]:
    return frozenset(_WORD.findall(content))
