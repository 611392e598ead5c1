"""Binds C++ libraries from their headers. A call is compiled for the types of its arguments, once, and kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tkjit.config import Settings

if TYPE_CHECKING:
    from tkjit.bindings.library import Library


def bind(
    *headers: str | Path,
    namespaces: str | Sequence[str] = (),
    backend: str = "cpp",
    include_dirs: Iterable[str | Path] = (),
    libraries: Iterable[str | Path] = (),
    defines: dict[str, object] | None = None,
    flags: Iterable[str] = (),
    std: str = "c++17",
    source: str = "",
    arch: str = "",
    start: str = "",
    stop: str = "",
) -> Library:
    """Bind the names that C++ headers declare.

    Parameters
    ----------
    headers : str or Path
        As an ``#include`` names them, or files, or directories of headers.
    namespaces : str or sequence of str
        Whose names are bound, those of inner namespaces too. With none: what the headers themselves declare.
    backend : {"cpp", "omp", "cuda"}
        The C++ compiler; the same with OpenMP; nvcc.
    include_dirs, libraries, defines, flags
        The compiler's.
    std : {"c++14", "c++17", "c++20"}
        The standard.
    source : str
        C++ text behind the headers: functions and classes of your own.
    arch : str
        The GPU's that nvcc compiles for; that of the first one here, if it is not given.
    start, stop : str
        Functions that are called before the first call and at exit, when all objects have been destroyed.

    Returns
    -------
    Library
        The names as attributes.

    Raises
    ------
    ArgumentError
        If an option is none of those.
    ToolchainError
        If a directory, a header or a compiler is missing. A header is read when a name is first asked for.

    Examples
    --------
    >>> import tkjit
    >>> std = tkjit.bind("vector", namespaces="std")
    >>> std
    <C++ namespace std>
    """
    from tkjit.bindings.header_set import make_header_set  # 10 ms, and most programs bind nothing
    from tkjit.bindings.library import Library

    headers_of = make_header_set(
        headers,
        namespaces=namespaces,
        backend=backend,
        include_dirs=include_dirs,
        libraries=libraries,
        defines=defines,
        flags=flags,
        std=std,
        source=source,
        arch=arch,
    )
    return Library(headers_of, Settings.from_environment(), start, stop)


def batch() -> AbstractContextManager[None]:
    """Compile the calls of a block on bound libraries together, where they have not been compiled yet.

    From the first such call on, calls wait, and return placeholders that can be passed to other calls. They are
    compiled and made, in their order, when a value is needed (a condition, a conversion, an array) and at the end of
    the block. A call on arrays of NumPy's sees what they contain by then.

    Raises
    ------
    ArgumentError
        If C++ refuses a call, at the end of the block or where a value is needed; the calls before it have been made.

    Examples
    --------
    >>> import tkjit
    >>> std = tkjit.bind("vector", namespaces="std")
    >>> with tkjit.batch():
    ...     numbers = std.vector(int)([3, 1, 2])
    ...     sum_of_ends = numbers.front() + numbers.back()
    >>> int(sum_of_ends), list(numbers)
    (5, [3, 1, 2])
    """
    from tkjit.bindings.batch import batch as make

    return make()


def _runtime() -> Any:
    from tkjit.bindings.runtime import runtime

    return runtime()


def ptr(value: Any) -> Any:
    """An argument that is passed as a pointer to a C++ object."""
    from tkjit.bindings.placeholders import pointer_to

    return pointer_to(value, _runtime().ptr)


def char_ptr(text: str) -> Any:
    """An argument that is passed as a C string."""
    return _runtime().char_ptr(text)


def move(value: Any) -> Any:
    """An argument that C++ may move from; it cannot be used afterwards."""
    from tkjit.bindings.placeholders import value_of

    return _runtime().move(value_of(value))


__all__ = ["batch", "bind", "char_ptr", "move", "ptr"]
