"""Rewrites shared memory of a CUDA source for a host compiler: dynamic arrays become references, alignments move."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from tkjit.source.lexer import Edit, Token, closing, macro_body, macros
from tkjit.source.scopes import Function, Outline, outline

_INITIALISER = " = ::tkjit::sim::dynamic_shared"
_SPECIFIERS = frozenset("__shared__ __device__ __constant__ __managed__ static const constexpr volatile".split())
_ALIGNMENT = frozenset(["alignas", "__align__", "__builtin_align__", "__attribute__"])


def alignments(tokens: list[Token]) -> list[Edit]:
    """Move ``alignas(16)`` before ``__shared__``, ``static`` and similar words, except in dynamic shared memory."""
    edits = []
    for i, token in enumerate(tokens[:-1]):
        if token.text != "alignas" or tokens[i + 1].text != "(" or (end := closing(tokens, i + 1)) is None:
            continue
        first = i
        while first > 0 and tokens[first - 1].text in (*_SPECIFIERS, "extern"):
            first -= 1
        if first == i or any(specifier.text == "extern" for specifier in tokens[first:i]):
            continue
        moved = tokens[i : end + 1]
        place = tokens[first].start
        edits.append(Edit(place, place, "".join(word.text for word in moved) + " "))
        edits += [Edit(word.start, word.end, "") for word in moved]
    return edits


class Declaration(NamedTuple):
    """An ``extern __shared__``: its tokens including the semicolon, the tokens to remove, and the declared names."""

    tokens: list[Token]
    removed: list[Token]
    names: list[Token]
    brackets: list[Token]  # the last token of each name's extents

    @property
    def references(self) -> str:
        """The declaration rewritten as references."""
        removed = {token.start for token in self.removed}
        words = []
        for token in self.tokens[:-1]:
            if token.start not in removed:
                words.append(f"(&{token.text})" if token in self.names else token.text)
            if token in self.brackets:
                words.append(_INITIALISER.strip())
        return f" {' '.join(words)};"


def dynamic_shared_memory(tokens: list[Token]) -> list[Edit]:
    """Rewrite each ``extern __shared__ T name[]`` as a reference in the functions that use it."""
    found = outline(tokens)
    edits = []
    outside: dict[str, Declaration] = {}
    for declaration in _declarations(found.code):
        if found.is_local(declaration.tokens[0]):
            edits += _as_references(declaration)
        else:
            edits += [Edit(token.start, token.end, "") for token in declaration.tokens]
            outside |= {name.text: declaration for name in declaration.names}
    for macro in macros(tokens):
        for declaration in _declarations([*macro_body(macro), _end_of_macro(macro)]):
            edits += _as_references(declaration)
    return edits + _redeclare(found, outside)


def first_dynamic_array(found: Outline, kernel: Function) -> Token | None:
    """Return the name of the first dynamic array that a kernel declares or uses in its body, or None."""
    words = pairwise(kernel.body)
    declared = {word.text for before, word in words if before.kind == "word" and before.text != "return"}
    for declaration in _declarations(found.code):
        first, name = declaration.tokens[0], declaration.names[0]
        is_inside = kernel.start <= first.start < kernel.end
        if is_inside or (not found.is_local(first) and name.text not in declared and _uses(kernel, name.text)):
            return name
    return None


def dynamic_arrays(statement: list[Token]) -> list[Edit]:
    """Rewrite ``extern __shared__ T name[];`` in a function of a preprocessed text as a reference."""
    return [edit for declaration in _declarations(statement) for edit in _as_references(declaration)]


def static_variables(text: str, statement: list[Token], start: int) -> list[Edit]:
    """Rewrite ``__shared__ T a[2], b;`` as references to variables in the block's shared memory, a struct for each.

    >>> from tkjit.source.lexer import tokens_of
    >>> source = "__shared__ float a[2], b;"
    >>> print(static_variables(source, tokens_of(source), 0)[0].text.replace("; ", ";\\n"))
    struct tkjit_shared_0 { float a[2];
    static const char* tkjit_name() { return "a";
    } };
    auto& a = ::tkjit::sim::static_shared<tkjit_shared_0>().a;
    struct tkjit_shared_1 { float b;
    static const char* tkjit_name() { return "b";
    } };
    auto& b = ::tkjit::sim::static_shared<tkjit_shared_1>().b;
    """
    kept = [token for token in statement[:-1] if token.text not in ("__shared__", "static")]
    base, declarators = _declarators(kept)
    if not declarators:
        return []
    variables = []
    for i, (name, declarator) in enumerate(declarators):
        struct = f"tkjit_shared_{start + i}"
        declared = f"{_text_of(text, base)} {_text_of(text, declarator)}"
        named = f'static const char* tkjit_name() {{ return "{name}"; }}'
        reference = f"auto& {name} = ::tkjit::sim::static_shared<{struct}>().{name};"
        variables.append(f"struct {struct} {{ {declared}; {named} }}; {reference}")
    first, last = statement[0].start, statement[-1].end
    return [Edit(first, last, " ".join(variables) + "\n" * text.count("\n", first, last))]


def _text_of(text: str, tokens: list[Token]) -> str:
    """Return the text of tokens, with one space instead of those between them."""
    gaps = [" " * (token.end < following.start) for token, following in pairwise(tokens)]
    return "".join(text[token.start : token.end] + gap for token, gap in zip(tokens, [*gaps, ""], strict=True))


def _declarators(tokens: list[Token]) -> tuple[list[Token], list[tuple[str, list[Token]]]]:
    """Split a declaration into its type, and the name and tokens of each declarator."""
    parts: list[list[Token]] = [[]]
    depth = angles = 0
    for token in tokens:
        if token.kind == "mark":
            depth += (token.text in ("(", "{", "[")) - (token.text in (")", "}", "]"))
            angles += (token.text == "<") - (len(token.text) if token.text in (">", ">>") else 0)
            if token.text == "," and depth == 0 and angles == 0:
                parts.append([])
                continue
        parts[-1].append(token)
    names = [_declared_name(part) for part in parts]
    if not all(names):
        return [], []
    first = parts[0].index(names[0])  # type: ignore[arg-type]
    while first > 0 and parts[0][first - 1].text in ("*", "&", "("):
        first -= 1
    declarators = [parts[0][first:], *parts[1:]]
    return parts[0][:first], [(name.text, part) for name, part in zip(names, declarators, strict=True) if name]


def _declared_name(tokens: list[Token]) -> Token | None:
    """Return the last word before the extents."""
    depth = angles = 0
    last = None
    for token in tokens:
        if token.kind == "mark":
            depth += (token.text in ("(", "{")) - (token.text in (")", "}"))
            angles += (token.text == "<") - (len(token.text) if token.text in (">", ">>") else 0)
            if token.text == "[" and not angles and not depth:
                break
        elif token.kind == "word" and depth == 0 and angles == 0:
            last = token
    return last


def _end_of_macro(directive: Token) -> Token:
    """Return an empty semicolon token, which ends a macro's last declaration."""
    return Token("mark", ";", directive.end, directive.end)


def _declarations(code: list[Token]) -> list[Declaration]:
    found = []
    for i, token in enumerate(code):
        if token.text != "__shared__" or token.kind != "word":
            continue
        start = i
        while start > 0 and code[start - 1].text not in (";", "{", "}", ":"):
            start -= 1
        end = next((k for k in range(i, len(code)) if code[k].text == ";" and code[k].kind == "mark"), None)
        if end is None:
            continue
        first = next((k for k in range(start, end) if code[k].text == "extern"), None)
        if first is not None:
            begin = start if code[start].text in _ALIGNMENT else min(first, i)
            declaration = _declaration(code[begin : end + 1])
            found += [declaration] if declaration else []
    return found


def _declaration(statement: list[Token]) -> Declaration | None:
    """Parse ``extern __shared__ __align__(16) T a[], b[][32];``; return None for any other statement."""
    removed, names, brackets = [], [], []
    i = 0
    while i < len(statement) - 1:
        token = statement[i]
        if token.text in ("extern", "__shared__"):
            removed.append(token)
        elif token.text in _ALIGNMENT and statement[i + 1].text == "(":
            end = closing(statement, i + 1)
            if end is None:
                return None
            removed += statement[i : end + 1]
            i = end
        elif token.text == "[":
            names.append(statement[i - 1])
            while statement[i].text == "[":
                end = closing(statement, i)
                if end is None:
                    return None
                i = end + 1
            i -= 1
            brackets.append(statement[i])
            if statement[i + 1].text not in (",", ";"):
                return None
        i += 1
    well_formed = names and all(name.kind == "word" for name in names)
    return Declaration(statement, removed, names, brackets) if well_formed else None


def _as_references(declaration: Declaration) -> list[Edit]:
    edits = [Edit(token.start, token.end, "") for token in declaration.removed]
    edits += [Edit(name.start, name.end, f"(&{name.text})") for name in declaration.names]
    edits += [Edit(bracket.end, bracket.end, _INITIALISER) for bracket in declaration.brackets]
    return edits


def _redeclare(found: Outline, outside: dict[str, Declaration]) -> list[Edit]:
    """Declare a function's references in a scope around its body, so that local names in the body can hide them."""
    edits = []
    for function in found.functions:
        used = [name for name in outside if function.start > outside[name].tokens[0].start and _uses(function, name)]
        if used:
            declared = "".join(dict.fromkeys(outside[name].references for name in used))
            edits += [Edit(function.start, function.start, f"{declared} {{"), Edit(function.end, function.end, "} ")]
    return edits


def _uses(function: Function, name: str) -> bool:
    if any(token.text == name for token in function.head):
        return False  # a parameter hides the array
    before = ""
    for token in function.body:
        if token.kind == "word" and token.text == name and before not in (".", "->", "::"):
            return True
        before = token.text
    return False
