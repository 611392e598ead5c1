"""Finds mistakes in a source that compilers take without a word."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tkjit.source.entries import kernel_functions
from tkjit.source.lexer import Token, closing, macros, tokens_of
from tkjit.source.scopes import outline


def silent_mistake(text: str, entry: str, layouts: Sequence[str], passed: Sequence[str] = ()) -> tuple[int, str] | None:
    """What is wrong with a source that compiles, and its line; None if nothing is known to be.

    Parameters
    ----------
    text : str
        The source.
    entry : str
        As the spec has it: ``relu<T>``.
    layouts : sequence of str
        The members of the rendered struct that are layouts.
    passed : sequence of str
        The names of plain arguments, in the order in which they are passed.

    Examples
    --------
    >>> silent_mistake("__global__ void f(Globals g) { g.x[1, 2] = 0; }", "f", ["x"])
    (1, '.x[1, 2] has one index, the last, as C++ reads a comma; .x(1, 2) has two')
    >>> silent_mistake("void f(Globals g) {}", "f", ["x"])
    (1, 'f(Globals g) is no kernel: write __global__ before it')
    """
    name = entry.partition("<")[0].strip()
    return _not_global(text, name) or _several_indices(text, layouts) or _other_order(text, name, passed)


def _other_order(text: str, name: str, passed: Sequence[str]) -> tuple[int, str] | None:
    """Plain arguments of the kernel's names, and in another order: of one type they are taken for each other."""
    kernels = [kernel for kernel in kernel_functions(text) if kernel.name == name] if len(passed) > 1 else []
    for kernel in kernels if len(kernels) == 1 else ():  # of several of one name nobody knows which is meant
        names = [match[0] for one in kernel.parameters if (match := re.search(r"\w+(?=\W*$)", one))]
        if sorted(names) == sorted(passed) and names != list(passed):
            place = re.search(rf"\b{re.escape(name)}\s*\(", text)
            line = text.count("\n", 0, place.start() if place else 0) + 1
            order = f'the spec passes {", ".join(passed)}; fields="{" ".join(names)}" is the kernel\'s order'
            return line, f"{kernel}: {order}"
    return None


def _several_indices(text: str, layouts: Sequence[str]) -> tuple[int, str] | None:
    """An index of two numbers in square brackets: C++20 takes the last one."""
    names = "|".join(map(re.escape, layouts))
    if not layouts or not re.search(rf"\.\s*(?:{names})\s*\[[^;]*?(?:,|\]\s*\[)", text):  # quick, and seldom true
        return None
    # another struct of the source may have members of these names, which are arrays
    parameters = [one for kernel in kernel_functions(text) for one in kernel.parameters if "Globals" in one]
    structs = {match[0] for one in parameters if (match := re.search(r"\w+$", one))}
    tokens = tokens_of(text)
    for i in range(2, len(tokens) - 3):
        is_field = tokens[i - 2].text in structs and tokens[i - 1].text == "." and tokens[i].text in layouts
        is_layout = is_field and tokens[i + 1].text == "["
        end = closing(tokens, i + 1) if is_layout else None
        if end is None:
            continue
        if tokens[end + 1].text == "[" and (last := closing(tokens, end + 1)) is not None:
            indices = [text[tokens[a].start : tokens[b].end] for a, b in ((i + 2, end - 1), (end + 2, last - 1))]
            name = tokens[i].text
            one = f".{name}[{indices[0]}][{indices[1]}]: a layout has one index in square brackets"
            return _line(text, tokens[i]), f"{one}; .{name}({', '.join(indices)}) has two"
        if _has_comma(tokens[i + 2 : end]):
            inside = text[tokens[i + 2].start : tokens[end - 1].end]
            name = tokens[i].text
            one = f".{name}[{inside}] has one index, the last, as C++ reads a comma"
            several = "two" if inside.count(",") == 1 else "several"
            return _line(text, tokens[i]), f"{one}; .{name}({inside}) has {several}"
    return None


def _has_comma(tokens: Sequence[Token]) -> bool:
    """Whether there is a comma outside of brackets."""
    depth = 0
    for token in tokens:
        depth += (token.text in "([{") - (token.text in ")]}") if token.kind == "mark" else 0
        if token.text == "," and depth == 0:
            return True
    return False


def _not_global(text: str, name: str) -> tuple[int, str] | None:
    """A function of the entry's name that is no kernel: a host compiler takes it for one."""
    own = name.rpartition("::")[2]
    if re.search(rf"__global__[^;{{}}]*\b{re.escape(own)}\b", text):  # quick, and nearly always true
        return None
    tokens = tokens_of(text)
    if any("__global__" in (token.text for token in macro.inner) for macro in macros(tokens)):
        return None  # a macro may define kernels
    if any(kernel.name.rpartition("::")[2] == own for kernel in kernel_functions(text)):
        return None
    for function in outline(tokens).functions:
        head = function.head
        for i in range(len(head) - 1):
            if head[i].text == own and head[i + 1].text == "(" and not function.is_member:
                written = " ".join(text[head[i].start : head[-1].end].split())
                return _line(text, head[i]), f"{written} is no kernel: write __global__ before it"
    return None


def _line(text: str, token: Token) -> int:
    return text.count("\n", 0, token.start) + 1
