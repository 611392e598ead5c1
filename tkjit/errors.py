"""The exceptions of tkjit: one base class, and one class for each kind of error."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

_PACKAGE = f"{Path(__file__).parent}{os.sep}"
# the standard library and installed packages
_LIBRARIES = (f"{Path(os.__file__).parent}{os.sep}", f"{sys.prefix}{os.sep}", "<frozen ", "<string>")


class TkjitError(Exception):
    """Base of every error that tkjit raises on purpose."""

    def _render_traceback_(self) -> list[str]:
        """Render the traceback for IPython and notebooks, with the user's own lines and none of tkjit's."""
        traceback = _users_part(self.__traceback__)
        cause, suppresses = self.__cause__, self.__suppress_context__
        earlier = cause or (None if suppresses else self.__context__)  # IPython shows this exception first
        earlier_traceback = None if earlier is None else earlier.__traceback__
        users = _users_part(earlier_traceback)
        if not users:
            self.__cause__ = None  # this also suppresses the context
        try:
            if earlier is not None:
                earlier.__traceback__ = users
            ipython: Any = sys.modules.get("IPython")
            shell = ipython.get_ipython() if ipython is not None else None
            if shell is None:
                from traceback import format_exception  # here, because `import tkjit` should not take 25 ms longer

                return format_exception(type(self), self, traceback)
            _show_code(self, shell)
            formatter = shell.InteractiveTB
            if traceback is None:  # raised by a magic command
                return list(formatter.get_exception_only(type(self), self))
            return list(formatter.structured_traceback(type(self), self, traceback, tb_offset=0))
        finally:
            if earlier is not None:
                earlier.__traceback__ = earlier_traceback
            self.__cause__, self.__suppress_context__ = cause, suppresses


def _show_code(error: TkjitError, shell: Any) -> None:
    """In a notebook, show the code that a message points at as HTML, before the traceback."""
    from tkjit.error_html import error_html, has_code

    text = str(error)
    if getattr(shell, "kernel", None) is not None and has_code(text):
        html = error_html(type(error).__name__, text, getattr(error, "log", ""))
        sys.modules["IPython"].display.display({"text/html": html, "text/plain": ""}, raw=True)


def _users_part(traceback: TracebackType | None) -> TracebackType | None:
    """Drop the frames of tkjit, of the libraries that tkjit called, and of IPython and everything that called it."""
    frames: list[TracebackType] = []
    is_below_tkjit = False
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        is_ours = file.startswith(_PACKAGE)
        is_below_tkjit = is_below_tkjit or is_ours
        if f"{os.sep}IPython{os.sep}core{os.sep}" in file:
            frames.clear()  # drop IPython's callers as well, because a magic command's caller shows the whole cell
        elif not is_ours and not (is_below_tkjit and file.startswith(_LIBRARIES)):
            frames.append(traceback)
        traceback = traceback.tb_next
    part = None
    for entry in reversed(frames):
        part = TracebackType(part, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return part


class SpecError(TkjitError):
    """A spec contradicts itself, or there is no kernel of the given name."""


class ToolchainError(TkjitError):
    """A compiler, a header or an architecture is missing; the message names what to install."""


class CacheError(TkjitError):
    """The cache directory cannot be read or written."""


class TkjitWarning(UserWarning):
    """Warns of something that works, but will cost somebody time."""


class ArgumentError(TkjitError, TypeError):
    """A call's argument is missing, unknown, repeated, or of the wrong type, dtype, device or layout."""


class ShapeError(TkjitError, ValueError):
    """A tensor's extents contradict the spec, another argument, a constraint, or the struct's compile-time extents."""


class LaunchError(TkjitError, RuntimeError):
    """A launch failed, or the kernel itself did."""


class CppError(TkjitError, RuntimeError):
    """A bound C++ function threw an exception without a Python counterpart; the message begins with its C++ type."""


REPRODUCE = "reproduce.sh"  # a script next to the log, with the command
_LONG_COMMAND = 200


class CompileError(TkjitError, RuntimeError):
    """A compiler rejected the code that was rendered from a spec.

    Parameters
    ----------
    summary : str
        The compiler's first error, at the user's own file and line if the error has one.
    what : str
        The compiled item: ``gemm (T=float32) for sm_90a``.
    log : str
        The compiler's whole output.
    log_path : Path
        The file with that output.
    command : str
        The shell command that reproduces the error.
    """

    def __init__(self, summary: str, *, what: str, log: str, log_path: Path, command: str) -> None:
        import shlex

        # a command of a thousand characters would fill the terminal
        script = log_path.with_name(REPRODUCE)
        again = f"sh {shlex.quote(str(script))}" if len(command) > _LONG_COMMAND and script.exists() else command
        super().__init__(f"{summary}\n  compiling: {what}\n  whole log: {log_path}\n  reproduce: {again}")
        self.summary = summary
        self.what = what
        self.log = log
        self.log_path = log_path
        self.command = command

    def about(self, summary: str, *, because: str = "") -> CompileError:
        """Return the same error with another summary, preceded by a reason in the spec's terms."""
        summary = f"{because}\n{summary}" if because else summary
        if summary == self.summary:
            return self
        return CompileError(summary, what=self.what, log=self.log, log_path=self.log_path, command=self.command)

    def __reduce__(self) -> tuple[object, ...]:
        # the default __reduce__ passes the class only the message, so a worker process's error could not be unpickled
        parts: dict[str, Any] = {"what": self.what, "log": self.log, "log_path": self.log_path, "command": self.command}
        return (partial(type(self), **parts), (self.summary,))
