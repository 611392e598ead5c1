"""Finds function bodies by their braces, without a full parse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tkjit.source.lexer import Token, closing, opening, opening_angle

_CLASS_KEYS = frozenset(["struct", "class", "union", "enum"])
_WITH_BRACKETS = frozenset(["alignas", "__align__", "__attribute__", "__launch_bounds__", "decltype", "noexcept"])


class Function(NamedTuple):
    """A function's definition: what stands before its body, the tokens of the body, and where the body lies."""

    head: list[Token]
    body: list[Token]
    start: int  # behind the opening brace
    end: int  # before the closing one
    is_member: bool  # it stands within a class
    namespace: str = ""  # "a::b::", without those that have no name


class Outline(NamedTuple):
    """The code of a source, without directives, and what is known of it."""

    code: list[Token]
    functions: list[Function]
    outside: frozenset[int]  # where tokens start that lie in no function

    def is_local(self, token: Token) -> bool:
        return token.start not in self.outside


class _Scope(NamedTuple):
    kind: str  # "namespace", "class", "function" or "other"
    brace: int  # its opening brace's index in the code


def outline(tokens: list[Token]) -> Outline:
    """Tell functions from namespaces and classes.

    >>> from tkjit.source.lexer import tokens_of
    >>> found = outline(tokens_of("namespace n { int x; void f(int a) { a = 1; } }"))
    >>> [[token.text for token in function.body] for function in found.functions]
    [['a', '=', '1', ';']]
    """
    code = [token for token in tokens if token.kind != "directive"]
    functions: list[Function] = []
    outside: set[int] = set()
    for index, scopes in _walk(tokens):
        token = code[index]
        if all(scope.kind in ("namespace", "class") for scope in scopes):
            outside.add(token.start)
        elif token.text == "}" and scopes[-1].kind == "function" and _is_outermost(scopes):
            brace = scopes[-1].brace
            head = code[_head(code, brace) : brace]
            is_member = any(scope.kind == "class" for scope in scopes)
            body = code[brace + 1 : index]
            namespace = "".join(_namespace(code, scope) for scope in scopes)
            functions.append(Function(head, body, code[brace].end, token.start, is_member, namespace))
    return Outline(code, functions, frozenset(outside))


def _namespace(code: list[Token], scope: _Scope) -> str:
    if scope.kind != "namespace":
        return ""
    names = [token.text for token in without_brackets(code[_head(code, scope.brace) : scope.brace])]
    named = names[names.index("namespace") + 1 :] if "namespace" in names else []
    return f"{''.join(named)}::" if named else ""


def _is_outermost(scopes: tuple[_Scope, ...]) -> bool:
    return all(scope.kind in ("namespace", "class") for scope in scopes[:-1])


def _walk(tokens: list[Token]) -> Iterator[tuple[int, tuple[_Scope, ...]]]:
    """Each token's index in the code, and the scopes that it lies in. A closing brace lies in what it closes.

    The branches of an ``#if`` begin with the same scopes, and what follows them goes on with those of the last.
    """
    code = [token for token in tokens if token.kind != "directive"]
    scopes: tuple[_Scope, ...] = ()
    branches: list[tuple[_Scope, ...]] = []
    index = 0
    for token in tokens:
        if token.kind == "directive":
            if token.text in ("if", "ifdef", "ifndef"):
                branches.append(scopes)
            elif token.text in ("else", "elif", "elifdef", "elifndef") and branches:
                scopes = branches[-1]
            elif token.text == "endif" and branches:
                branches.pop()
            continue
        yield index, scopes
        if token.text == "{" and token.kind == "mark":
            scopes = (*scopes, _Scope(_kind(code[_head(code, index) : index], scopes), index))
        elif token.text == "}" and token.kind == "mark":
            scopes = scopes[:-1]
        index += 1


def _head(code: list[Token], brace: int) -> int:
    """The index at which what a brace belongs to begins: behind the last semicolon or brace.

    Brackets are passed over with what they hold, and so are the braces of a constructor's initialisers.
    """
    start = brace
    while start > 0:
        before = code[start - 1].text if code[start - 1].kind == "mark" else ""
        bracket = opening(code, start - 1) if before in (")", "]", "}") else None
        if before in (")", "]") and bracket is not None:
            start = bracket
        elif before == "}" and (start == brace or code[start].text == ",") and _initialises(code, bracket):
            start = bracket or 0
        elif before in (";", "{", "}"):
            return start
        else:
            start -= 1
    return start


def _initialises(code: list[Token], brace: int | None) -> bool:
    """Whether a brace is that of ``a{1}`` in ``S() : a{1}, b{2} {}``."""
    i = (brace or 0) - 1
    if i > 0 and code[i].text in (">", ">>", ">>>"):
        i = (opening_angle(code, i) or 0) - 1
    while i > 1 and code[i].kind == "word" and code[i - 1].text == "::":
        i -= 2
    return i > 1 and code[i].kind == "word" and code[i - 1].text in (",", ":")


def _kind(head: list[Token], scopes: tuple[_Scope, ...]) -> str:
    if any(scope.kind in ("function", "other") for scope in scopes):
        return "other"
    words = [token.text for token in without_brackets(head)]
    if "namespace" in words or [token.text for token in head] == ["extern", '"C"']:
        return "namespace"
    if sum((token.text == "(") - (token.text == ")") for token in head) > 0:
        return "other"  # `decltype(T{})`
    if "(" in words and ")" in words and not (_CLASS_KEYS & set(words) and ":" in words[: words.index("(")]):
        behind = words[len(words) - words[::-1].index(")") :]
        # `S() : a(1), b{2} {}` has a brace that begins no body
        initialises = _initialises([*head, head[-1]], len(head)) and (":" in behind or behind[:1] == [","])
        return "other" if initialises else "function"
    return "class" if _CLASS_KEYS & set(words) else "other"


def without_brackets(head: list[Token]) -> list[Token]:
    """What stands before a brace, without template parameters and without what attributes have in brackets."""
    found = []
    i = 0
    while i < len(head):
        token = head[i]
        if token.text in _WITH_BRACKETS and i + 1 < len(head) and head[i + 1].text == "(":
            i = closing(head, i + 1) or len(head)
        elif token.text == "template" and i + 1 < len(head) and head[i + 1].text == "<":
            i = _closing_angle(head, i + 1)
        else:
            found.append(token)
        i += 1
    return found


def _closing_angle(head: list[Token], index: int) -> int:
    depth = 0
    for i in range(index, len(head)):
        text = head[i].text
        depth += (text == "<") - (len(text) if text in (">", ">>", ">>>") else 0)
        if depth <= 0:
            return i
    return len(head)
