"""Splits CUDA C++ into tokens with positions, for small edits of a source.

Comments and white space are left out. A string, a character or a raw string is one token. So is a preprocessor
directive, which holds its own tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
    (?P<space>(?:[ \t\v\f\r]|\\\r?\n)+ | //(?:\\\r?\n|[^\n])* | /\*.*?(?:\*/|\Z))
  | (?P<newline>\n)
  | (?P<string>(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)"
             | (?:u8|[uUL])?"(?:[^"\\\n]|\\.)*" | (?:u8|[uUL])?'(?:[^'\\\n]|\\.)*')
  | (?P<word>[^\W\d]\w*)
  | (?P<number>\.?\d(?:[eEpP][+-]|'\w|[\w.])*)
  | (?P<mark><<<|>>>|->\*?|::|<<|>>|<=|>=|\#\#|.)
    """,
    re.DOTALL | re.VERBOSE,
)


class Token(NamedTuple):
    """A token: its kind, its text, and its position in the source.

    Parameters
    ----------
    kind : str
        ``word``, ``number``, ``string``, ``mark`` or ``directive``.
    text : str
        For a directive, its name: ``define``.
    inner : tuple of Token
        The tokens after a directive's name.
    """

    kind: str
    text: str
    start: int
    end: int
    inner: tuple[Token, ...] = ()


def tokens_of(text: str) -> list[Token]:
    """Split a source into tokens.

    >>> [token.text for token in tokens_of("f<<<1, N>>>(x);  // launch")]
    ['f', '<<<', '1', ',', 'N', '>>>', '(', 'x', ')', ';']
    >>> [(token.text, len(token.inner)) for token in tokens_of("#define TWO 2\\nint x;")]
    [('define', 2), ('int', 0), ('x', 0), (';', 0)]
    """
    found: list[Token] = []
    line_is_empty = True
    pieces = _pieces(text)
    for token in pieces:
        if token.kind == "newline":
            line_is_empty = True
        elif token.text == "#" and line_is_empty:
            found.append(_directive(token, pieces))  # also consumes the end of its line
        else:
            line_is_empty = False
            found.append(token)
    return found


def tokens_from(text: str, start: int) -> Iterator[Token]:
    """Yield the tokens of a preprocessed text from a position on, without the compiler's line marks."""
    before = text.rfind("\n", 0, start)
    line_is_empty = not text[before + 1 : start].strip()
    is_mark = False
    for token in _pieces(text, start):
        if token.kind == "newline":
            line_is_empty, is_mark = True, False
            continue
        is_mark |= line_is_empty and token.text == "#"
        line_is_empty = False
        if not is_mark:
            yield token


def _pieces(text: str, start: int = 0) -> Iterator[Token]:
    for match in _TOKEN.finditer(text, start):
        kind = match.lastgroup  # the outermost group that matched, so never "delimiter"
        if kind and kind != "space":
            yield Token(kind, match[0], match.start(), match.end())


def _directive(sharp: Token, following: Iterator[Token]) -> Token:
    inner = []
    for token in following:
        if token.kind == "newline":
            break
        inner.append(token)
    end = inner[-1].end if inner else sharp.end
    name, rest = (inner[0].text, inner[1:]) if inner else ("", [])
    return Token("directive", name, sharp.start, end, tuple(rest))


def macros(tokens: list[Token]) -> list[Token]:
    """Return the directives that define a macro."""
    return [token for token in tokens if token.kind == "directive" and token.text == "define"]


def macro_body(define: Token) -> list[Token]:
    """Return a macro's replacement: its ``#define`` without the name and the parameters.

    >>> [token.text for token in macro_body(tokens_of("#define TWICE(x) x, x")[0])]
    ['x', ',', 'x']
    """
    replacement = list(define.inner[1:])
    # a parenthesis begins parameters only if it touches the name
    if replacement and replacement[0].text == "(" and replacement[0].start == define.inner[0].end:
        return replacement[(closing(replacement, 0) or 0) + 1 :]
    return replacement


_OPENING = {")": "(", "]": "[", "}": "{"}
_CLOSING = {opening: closing for closing, opening in _OPENING.items()}


def closing(tokens: list[Token], index: int) -> int | None:
    """Return the index of the bracket that closes the one at ``index``, or None."""
    depth = 0
    for i in range(index, len(tokens)):
        if tokens[i].kind == "mark":
            depth += (tokens[i].text in _CLOSING) - (tokens[i].text in _OPENING)
            if depth == 0:
                return i
    return None


def opening(tokens: list[Token], index: int) -> int | None:
    """Return the index of the bracket that the one at ``index`` closes, or None."""
    depth = 0
    for i in range(index, -1, -1):
        if tokens[i].kind == "mark":
            depth += (tokens[i].text in _OPENING) - (tokens[i].text in _CLOSING)
            if depth == 0:
                return i
    return None


def opening_angle(tokens: list[Token], index: int) -> int | None:
    """Return the index of the outermost ``<`` that the ``>``, ``>>`` or ``>>>`` at ``index`` closes, or None.

    Tokens in brackets are skipped, so that ``kernel<(N > 2)>`` has one pair. A ``<<`` is a shift.
    """
    depth = 0
    i = index
    while i >= 0:
        mark = tokens[i].text if tokens[i].kind == "mark" else ""
        if mark in _OPENING:
            before = opening(tokens, i)
            if before is None:
                return None
            i = before
        elif mark in (">", ">>", ">>>"):
            depth += len(mark)
        elif mark == "<":
            depth -= 1
            if depth == 0:
                return i
        elif mark in _CLOSING or mark in (";", "<<<"):
            return None
        i -= 1
    return None


class Edit(NamedTuple):
    """Replaces ``text[start:end]``, or inserts if ``start`` equals ``end``."""

    start: int
    end: int
    text: str


def apply_edits(text: str, edits: list[Edit]) -> str:
    """Apply edits to a text.

    >>> apply_edits("one two", [Edit(4, 7, "three"), Edit(0, 0, "(")])
    '(one three'
    """
    pieces, position = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start >= position:  # skip a second edit of the same tokens: it would repeat the first
            pieces += [text[position : edit.start], edit.text]
            position = edit.end
    return "".join([*pieces, text[position:]])
