"""The exceptions of tkjit: one base class, and one class for each kind of error."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any


class TkjitError(Exception):
    """Base of every error that tkjit raises on purpose."""


class SpecError(TkjitError):
    """A spec contradicts itself, or a kernel of that name does not exist."""


class ToolchainError(TkjitError):
    """A compiler, a header or an architecture is missing; the text says what to install."""


class CacheError(TkjitError):
    """The cache directory cannot be read or written."""


class TkjitWarning(UserWarning):
    """What works, and will cost somebody time."""


class ArgumentError(TkjitError, TypeError):
    """A call's argument is missing, unknown, repeated, or of the wrong type, dtype, device or layout."""


class ShapeError(TkjitError, ValueError):
    """A tensor's extents contradict the spec, another argument, a constraint, or the struct's compile-time extents."""


class LaunchError(TkjitError, RuntimeError):
    """The launch failed, or the kernel did."""


class CppError(TkjitError, RuntimeError):
    """A bound C++ function threw an exception for which Python has no class; the text begins with its C++ type."""


class CompileError(TkjitError, RuntimeError):
    """A compiler refused what was rendered from a spec.

    Parameters
    ----------
    summary : str
        The compiler's first error, on the user's own file and line where it has one.
    what : str
        What was compiled: ``gemm (T=float32) for sm_90a``.
    log : str
        All that the compiler printed.
    log_path : Path
        Where that text lies.
    command : str
        The shell command that reproduces it.
    """

    def __init__(self, summary: str, *, what: str, log: str, log_path: Path, command: str) -> None:
        super().__init__(f"{summary}\n  compiling: {what}\n  whole log: {log_path}\n  reproduce: {command}")
        self.summary = summary
        self.what = what
        self.log = log
        self.log_path = log_path
        self.command = command

    def because(self, reason: str) -> CompileError:
        """The same error with a reason in front, in the words of a spec."""
        summary = f"{reason}\n{self.summary}"
        return CompileError(summary, what=self.what, log=self.log, log_path=self.log_path, command=self.command)

    def __reduce__(self) -> tuple[object, ...]:
        # the default calls the class with the message alone, which a worker process could not unpickle
        parts: dict[str, Any] = {"what": self.what, "log": self.log, "log_path": self.log_path, "command": self.command}
        return (partial(type(self), **parts), (self.summary,))
