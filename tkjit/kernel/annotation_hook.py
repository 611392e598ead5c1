"""Says what a name in an annotation is that lacks its quotes.

Python evaluates the annotations before the decorator sees the function, so an unknown name there ends a script with
Python's words alone. ``tkjit.kernel(...)`` is called before that. Until it gets the function, the hook for uncaught
exceptions adds a line to those words.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from types import CodeType, TracebackType
from typing import Any

from tkjit.spec.advice import name_without_quotes


class AnnotationHook:
    """The hook for uncaught exceptions while annotations are evaluated.

    Parameters
    ----------
    code : CodeType
        Of the module or the function that defines the kernel.
    """

    def __init__(self, code: CodeType) -> None:
        self._code = code
        before = sys.excepthook
        self._before: Callable[..., Any] = before._before if isinstance(before, AnnotationHook) else before
        sys.excepthook = self

    def __call__(self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        self._before(kind, error, traceback)
        while traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
        if traceback is None or traceback.tb_frame.f_code is not self._code:
            return
        line = linecache.getline(self._code.co_filename, traceback.tb_lineno)  # none of a text that was given by -c
        if advice := name_without_quotes(error, line):
            print(f"tkjit: {advice.removeprefix('; ')}", file=sys.stderr)

    def end(self) -> None:
        """The annotations are evaluated."""
        if sys.excepthook is self:
            sys.excepthook = self._before
