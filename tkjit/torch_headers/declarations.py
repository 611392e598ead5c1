"""What is declared at the beginning of a source, by the identifiers in it and in its headers."""

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
# macros that let the stand-ins include more, where a source has a word
_MACROS = ("complex", "cublas", "torch_library")
# a module's function without PyMODINIT_FUNC would be hidden, as all functions of a source are
_MODULE = re.compile(r"\bPyInit_\w+(?=\s*\()")
_EXPORTED = 'extern "C" __attribute__((visibility("default"))) struct _object* {}();\n'


def declarations(source: str, search: Sequence[Path]) -> str:
    """The lines that a source begins with: the operators of torch that it mentions, and macros of the stand-ins.

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
    """Write the headers of single operators, ``ATen/ops/NAME.h``, that are among the names of headers.

    torch has 1,300. Here each is the same stand-in, so that only those that are included are made.
    """
    for name in filter(_OPERATOR_HEADER.fullmatch, included):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, "#include <tkjit/torch/tensor.h>\n")


def declarations_of_spec(spec: Spec, source: Source) -> str:
    """What a kernel's launcher begins with, where its source includes torch's headers."""
    if all(library.name != "torch" for library in spec.headers):
        return ""
    own = (source.path.parent,) if source.path else ()
    return declarations(source.read(), (*own, *spec.include_dirs))


def words_of(text: str, search: Sequence[Path]) -> frozenset[str]:
    """The identifiers of a source and of each header in some directories that it may include and that mentions torch.

    Conditions and comments are not looked at: a word too many costs a declaration.

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
