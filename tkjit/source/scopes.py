"""Finds function bodies by their braces, without a full parse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tkjit.source.lexer import Token, closing, opening, opening_angle

_CLASS_KEYS = frozenset(["struct", "class", "union", "enum"])
_WITH_BRACKETS = frozenset(["alignas", "__align__", "__attribute__", "__launch_bounds__", "decltype", "noexcept"])


class Function(NamedTuple):
    """A function definition: the tokens before its body, the tokens of its body, and the body's position."""

    head: list[Token]
    body: list[Token]
    start: int  # after the opening brace
    end: int  # before the closing brace
    is_member: bool  # whether it is defined in a class
    namespace: str = ""  # "a::b::", without unnamed namespaces


class Outline(NamedTuple):
    """The code of a source without its directives, and the functions in it."""

    code: list[Token]
    functions: list[Function]
    outside: frozenset[int]  # the start positions of the tokens outside of functions

    def is_local(self, token: Token) -> bool:
        return token.start not in self.outside


class _Scope(NamedTuple):
    kind: str  # "namespace", "class", "function" or "other"
    brace: int  # the index of its opening brace in the code


def outline(tokens: list[Token]) -> Outline:
    """Find the functions of a source, and distinguish them from namespaces and classes.

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
    """Yield each token's index in the code with its scopes. A closing brace belongs to the scope that it closes.

    All branches of an ``#if`` begin with the same scopes; after the ``#endif``, the scopes are those at the end of the
    last branch.
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
    """Return the index of the token with which a brace's head begins: the one after the previous semicolon or brace.

    Brackets and their contents are skipped, and so are the braces of a constructor's initialisers.
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
    """Whether a brace belongs to an initialiser, such as ``a{1}`` in ``S() : a{1}, b{2} {}``."""
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
        after = words[len(words) - words[::-1].index(")") :]
        # the first brace of `S() : a(1), b{2} {}` does not begin a body
        initialises = _initialises([*head, head[-1]], len(head)) and (":" in after or after[:1] == [","])
        return "other" if initialises else "function"
    return "class" if _CLASS_KEYS & set(words) else "other"


def without_brackets(head: list[Token]) -> list[Token]:
    """Remove template parameters, and attributes with arguments, from the tokens before a brace."""
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
