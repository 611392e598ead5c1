"""The exceptions of tkjit: one base class, and one class for each kind of error."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

_PACKAGE = f"{Path(__file__).parent}{os.sep}"
# the standard library, and where packages are installed
_LIBRARIES = (f"{Path(os.__file__).parent}{os.sep}", f"{sys.prefix}{os.sep}", "<frozen ", "<string>")


class TkjitError(Exception):
    """Base of every error that tkjit raises on purpose."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows of it, in a notebook too: the user's own lines, and none of tkjit's."""
        traceback = _users_part(self.__traceback__)
        cause, suppresses = self.__cause__, self.__suppress_context__
        earlier = cause or (None if suppresses else self.__context__)  # what is shown before it
        behind = None if earlier is None else earlier.__traceback__
        users = _users_part(behind)
        if not users:
            self.__cause__ = None  # which also suppresses the context
        try:
            if earlier is not None:
                earlier.__traceback__ = users
            ipython: Any = sys.modules.get("IPython")
            shell = ipython.get_ipython() if ipython is not None else None
            if shell is None:
                from traceback import format_exception  # 25 ms, which importing tkjit does not take

                return format_exception(type(self), self, traceback)
            formatter = shell.InteractiveTB
            if traceback is None:  # of a magic command
                return list(formatter.get_exception_only(type(self), self))
            return list(formatter.structured_traceback(type(self), self, traceback, tb_offset=0))
        finally:
            if earlier is not None:
                earlier.__traceback__ = behind
            self.__cause__, self.__suppress_context__ = cause, suppresses


def _users_part(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of tkjit, of IPython and what called it, and of other libraries behind them."""
    frames: list[TracebackType] = []
    is_behind = False
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        is_ours = file.startswith(_PACKAGE)
        is_behind = is_behind or is_ours
        if f"{os.sep}IPython{os.sep}core{os.sep}" in file:
            frames.clear()  # the call of a magic command, with the text of its cell
        elif not is_ours and not (is_behind and file.startswith(_LIBRARIES)):
            frames.append(traceback)
        traceback = traceback.tb_next
    part = None
    for one in reversed(frames):
        part = TracebackType(part, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return part


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


REPRODUCE = "reproduce.sh"  # a file beside the log, with the command
_LONG_COMMAND = 200


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
        import shlex

        # a line of a thousand characters would be all that a terminal shows
        script = log_path.with_name(REPRODUCE)
        again = f"sh {shlex.quote(str(script))}" if len(command) > _LONG_COMMAND and script.exists() else command
        super().__init__(f"{summary}\n  compiling: {what}\n  whole log: {log_path}\n  reproduce: {again}")
        self.summary = summary
        self.what = what
        self.log = log
        self.log_path = log_path
        self.command = command

    def about(self, summary: str, *, because: str = "") -> CompileError:
        """The same error with another summary, and with a reason in front, in the words of a spec."""
        summary = f"{because}\n{summary}" if because else summary
        if summary == self.summary:
            return self
        return CompileError(summary, what=self.what, log=self.log, log_path=self.log_path, command=self.command)

    def __reduce__(self) -> tuple[object, ...]:
        # the default calls the class with the message alone, which a worker process could not unpickle
        parts: dict[str, Any] = {"what": self.what, "log": self.log, "log_path": self.log_path, "command": self.command}
        return (partial(type(self), **parts), (self.summary,))
