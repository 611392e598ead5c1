"""Binds C++ libraries from their headers. Each call is compiled once per combination of argument types, and cached."""

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
    """Make the names that C++ headers declare available in Python.

    Parameters
    ----------
    headers : str or Path
        Names as in an ``#include``, files, or directories of headers.
    namespaces : str or sequence of str
        The namespaces to bind, including their inner namespaces. By default, tkjit binds every name that the headers
        themselves declare.
    backend : {"cpp", "omp", "cuda"}
        ``"cpp"`` is the C++ compiler, ``"omp"`` is the C++ compiler with OpenMP, and ``"cuda"`` is nvcc.
    include_dirs, libraries, defines, flags
        Options for the compiler. A library is a name or a file.
    std : {"c++14", "c++17", "c++20"}
        The C++ standard.
    source : str
        C++ code to put after the headers, such as your own functions and classes.
    arch : str
        The GPU architecture that nvcc compiles for. The default is the first GPU's architecture.
    start, stop : str
        C++ functions. ``start`` is called before the first call, and ``stop`` is called at exit, after all objects have
        been destroyed.

    Returns
    -------
    Library
        An object whose attributes are the bound names.

    Raises
    ------
    ArgumentError
        If an option has an invalid value.
    ToolchainError
        If a directory, a header or a compiler is missing. tkjit reads the headers only when you first use a name.

    Examples
    --------
    >>> import tkjit
    >>> std = tkjit.bind("vector", namespaces="std")
    >>> std
    <C++ namespace std>
    """
    from tkjit.bindings.header_set import make_header_set  # 10 ms, and most programs bind nothing
    from tkjit.bindings.library import Library

    header_set = make_header_set(
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
    return Library(header_set, Settings.from_environment(), start, stop)


def batch() -> AbstractContextManager[None]:
    """Compile all calls that a ``with`` block makes to bound libraries together.

    As soon as the block makes a call that is not compiled yet, that call and all later calls wait. Waiting calls return
    placeholders, which you can pass to other calls. tkjit compiles the waiting calls and makes them in order at the end
    of the block, or earlier if a value is needed (for a condition, a conversion or an array). A waiting call that takes
    a NumPy array sees the contents that the array has when the call is made.

    Raises
    ------
    ArgumentError
        If C++ rejects a call. The error appears at the end of the block, or when a value is needed. The calls before
        the rejected one have been made.

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
    """Mark a C++ object to be passed as a pointer."""
    from tkjit.bindings.deferred import pointer_to

    return pointer_to(value, _runtime().ptr)


def char_ptr(text: str) -> Any:
    """Mark a str to be passed as a C string."""
    return _runtime().char_ptr(text)


def move(value: Any) -> Any:
    """Mark a C++ object to be moved from. It cannot be used afterwards."""
    from tkjit.bindings.deferred import value_of

    return _runtime().move(value_of(value))


__all__ = ["batch", "bind", "char_ptr", "move", "ptr"]
