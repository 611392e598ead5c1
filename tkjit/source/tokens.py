"""Treats tokens as C++ expressions and types: splits them at commas, replaces names, and prints them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tkjit.source.lexer import Token, closing

_SPACED = frozenset(["+", "-", "*", "/", "%", "?", ":", "=", "==", "&&", "||", "|", "&", "<<"])
_ANGLE_ENDS = frozenset(["(", ")", "{", "}", "::", ",", ">", ">>", ">>>", "<<<", ";", "]", "&", "*", "..."])


def closing_angle(tokens: Sequence[Token], index: int) -> int | None:
    """Return the index of the token that closes the ``<`` at ``index``, or None for a comparison.

    The tokens should come from ``with_angles_apart``, which splits a ``>>`` that ends template arguments.

    >>> from tkjit.source.lexer import tokens_of
    >>> closing_angle(tokens_of("f<g<2>, (N > 1)>(x)"), 1), closing_angle(tokens_of("i < n;"), 1)
    (12, None)
    """
    depth, i = 0, index
    while i < len(tokens):
        text = tokens[i].text if tokens[i].kind == "mark" else ""
        if text in ("(", "[", "{"):
            end = closing(list(tokens), i)
            if end is None:
                return None
            i = end
        elif text == "<":
            depth += 1
        elif text in (">", ">>", ">>>"):
            depth -= len(text)
            if depth <= 0:
                following = tokens[i + 1].text if i + 1 < len(tokens) else ";"
                word = i + 1 < len(tokens) and tokens[i + 1].kind == "word"
                return i if word or following in _ANGLE_ENDS else None
        elif text in (";", "}", ")", "]", "<<<"):
            return None
        i += 1
    return None


def with_angles_apart(tokens: Sequence[Token]) -> list[Token]:
    """Split ``>>`` and ``>>>`` so that each ``>`` that ends template arguments is a separate token.

    >>> from tkjit.source.lexer import tokens_of
    >>> [token.text for token in with_angles_apart(tokens_of("f<g<2>>(1 >> 2)")) if ">" in token.text]
    ['>', '>', '>>']
    >>> [token.text for token in with_angles_apart(tokens_of("f<<<1, g<h<2>>>>>(x)")) if ">" in token.text]
    ['>', '>', '>>>']
    """
    found: list[Token] = []
    stack: list[str] = []  # open brackets and angles
    i = 0
    while i < len(tokens):
        token = tokens[i]
        text = token.text if token.kind == "mark" else ""
        if text and set(text) == {">"}:
            end = i + 1
            while end < len(tokens) and set(tokens[end].text) == {">"} and tokens[end].start == tokens[end - 1].end:
                end += 1
            run = sum(len(part.text) for part in tokens[i:end])
            place = token.start
            while run and stack and stack[-1] == "<":
                stack.pop()
                found.append(Token("mark", ">", place, place + 1))
                run, place = run - 1, place + 1
            while run:
                size = min(run, 3)
                found.append(Token("mark", ">" * size, place, place + size))
                run, place = run - size, place + size
            i = end
            continue
        if text in ("(", "[", "{"):
            stack.append(text)
        elif text in (")", "]", "}"):
            while stack and stack.pop() == "<":
                pass
        elif text == "<" and i and tokens[i - 1].kind == "word" and closing_angle(tokens, i) is not None:
            stack.append("<")
        found.append(token)
        i += 1
    return found


def split(tokens: Sequence[Token]) -> list[list[Token]]:
    """Split tokens at the outermost commas.

    >>> from tkjit.source.lexer import tokens_of
    >>> [spell(part) for part in split(tokens_of("f<1, 2>(x, y), a < b, {3, 4}"))]
    ['f<1, 2>(x, y)', 'a<b', '{3, 4}']
    """
    parts: list[list[Token]] = [[]]
    i = 0
    while i < len(tokens):
        token, end = tokens[i], None
        if token.kind == "mark" and token.text in ("(", "[", "{"):
            end = closing(list(tokens), i)
        elif token.text == "<" and parts[-1] and parts[-1][-1].kind == "word":
            end = closing_angle(tokens, i)
        if end is not None:
            parts[-1] += tokens[i : end + 1]
            i = end + 1
            continue
        if token.kind == "mark" and token.text == ",":
            parts.append([])
        else:
            parts[-1].append(token)
        i += 1
    return parts if len(parts) > 1 or parts[0] else []


def replace_names(tokens: Sequence[Token], names: Mapping[str, Sequence[Token]]) -> list[Token]:
    """Replace names by the given tokens, except members and names after ``::``."""
    found: list[Token] = []
    for i, token in enumerate(tokens):
        before = tokens[i - 1].text if i else ""
        if token.kind == "word" and token.text in names and before not in ("::", ".", "->"):
            found += names[token.text]
        else:
            found.append(token)
    return found


def words(tokens: Sequence[Token]) -> set[str]:
    """Return the words that are neither members nor qualified by ``::``."""
    return {
        token.text
        for i, token in enumerate(tokens)
        if token.kind == "word" and (i == 0 or tokens[i - 1].text not in ("::", ".", "->"))
    }


def spell(tokens: Sequence[Token]) -> str:
    """Print tokens as text.

    >>> from tkjit.source.lexer import tokens_of
    >>> spell(tokens_of("typename  a::b<2,4> ( n+1 , -2 )"))
    'a::b<2, 4>(n + 1, -2)'
    """
    text = ""
    before = ""
    for i, token in enumerate(tokens):
        if token.text in ("typename", "template") and token.kind == "word":
            continue
        operand = i > 0 and (tokens[i - 1].kind in ("word", "number") or tokens[i - 1].text in (")", "]"))
        if token.text in _SPACED and operand:
            text = text.rstrip() + f" {token.text} "
        elif token.text == ",":
            text = text.rstrip() + ", "
        elif token.kind in ("word", "number") and before in ("word", "number"):
            text += f" {token.text}"
        else:
            text += token.text
        before = token.kind
    return text.strip()
