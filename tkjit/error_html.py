"""Renders the message of an error as HTML, for notebooks."""

from __future__ import annotations

import re
from html import escape

_CARET = re.compile(r"^\s*[~^][~^\s]*$")
_WORD = re.compile(r"\w+|.")
_STYLE = "border-left: 4px solid #c33; padding: 0.3em 0.9em; overflow-x: auto"


def has_code(text: str) -> bool:
    """Return whether a message contains a line of code with a caret below it."""
    return any(_CARET.match(line) for line in text.split("\n")[1:])


def error_html(kind: str, text: str, log: str = "") -> str:
    """Render an error: its message, in which code is marked where a caret pointed, and a log that is folded.

    Parameters
    ----------
    kind : str
        The name of the exception's class.
    log : str
        The compiler's whole output; empty for none.

    Examples
    --------
    >>> "<mark>sum</mark> = 1;" in error_html("CompileError", "a.cu:3:5: error: no sum\\n    sum = 1;\\n    ^")
    True
    """
    first, *rest = text.split("\n")
    lines: list[str] = []
    for number, line in enumerate(rest):
        is_code = number + 1 < len(rest) and _CARET.match(rest[number + 1])
        if is_code:
            lines.append(_marked(line, rest[number + 1]))
        elif not _CARET.match(line):
            lines.append(escape(line))
    folded = f"<details><summary>the compiler's output</summary><pre>{escape(log)}</pre></details>" if log else ""
    body = f"<pre>{chr(10).join(lines)}</pre>" if lines else ""
    return f'<div style="{_STYLE}"><b>{escape(kind)}</b>: {escape(first)}{body}{folded}</div>'


def _marked(code: str, carets: str) -> str:
    """Mark the part of a line of code that carets point at; a single caret marks a word."""
    start, end = len(carets) - len(carets.lstrip()), len(carets.rstrip())
    if end - start == 1 and (word := _WORD.match(code, start)):
        end = word.end()
    return f"{escape(code[:start])}<mark>{escape(code[start:end])}</mark>{escape(code[end:])}"
