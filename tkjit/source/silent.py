"""Finds mistakes in a source that compilers take without a word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple

from tkjit.source.entries import entry_function, kernel_functions
from tkjit.source.lexer import Token, closing, macros, tokens_of
from tkjit.source.scopes import outline
from tkjit.source.shared_memory import first_dynamic_array


class Passed(NamedTuple):
    """What a spec passes to its kernel.

    Parameters
    ----------
    layouts : sequence of str
        The members of the rendered struct that are layouts.
    read_only : sequence of str
        Those of them that are ``In``.
    arguments : sequence of str
        The names of plain arguments, in the order in which they are passed.
    shared_memory : bool
        Whether the spec says how much dynamic shared memory there is.
    """

    layouts: Sequence[str] = ()
    read_only: Sequence[str] = ()
    arguments: Sequence[str] = ()
    shared_memory: bool = True


def silent_mistake(text: str, entry: str, passed: Passed) -> tuple[int, str] | None:
    """What is wrong with a source that compiles, and its line; None if nothing is known to be.

    Parameters
    ----------
    text : str
        The source.
    entry : str
        As the spec has it: ``relu<T>``.
    passed : Passed

    Examples
    --------
    >>> silent_mistake("__global__ void f(Globals g) { g.x[1, 2] = 0; }", "f", Passed(["x"]))
    (1, '.x[1, 2] has one index, the last, as C++ reads a comma; .x(1, 2) has two')
    >>> silent_mistake("void f(Globals g) {}", "f", Passed(["x"]))
    (1, 'f(Globals g) is no kernel: write __global__ before it')
    >>> silent_mistake("__global__ void f(Globals g) { g.x[0] += 1; }", "f", Passed(["x"], ["x"]))
    (1, 'the kernel writes to .x, and x is In: InOut is what a kernel reads and writes, Out what it makes')
    """
    name = entry.partition("<")[0].strip()
    return (
        _not_global(text, name)
        or _several_indices(text, name, passed.layouts)
        or _written(text, name, passed.read_only)
        or (None if passed.shared_memory else _no_shared_memory(text, name))
        or _array_of_run_time_size(text, name)
        or _other_order(text, name, passed.arguments)
    )


_ASSIGNMENT = re.compile(r"\s*(?:=(?!=)|[-+*/%&|^]=|<<=|>>=|\+\+|--)")


def _written(text: str, name: str, read_only: Sequence[str]) -> tuple[int, str] | None:
    """An assignment to an element of what is only read: the caller's tensor would change, and nobody knows."""
    for tokens, i in _fields(text, name, read_only):
        end = closing(tokens, i + 1)
        if end is not None and _ASSIGNMENT.match(text, tokens[end].end):
            kinds = "InOut is what a kernel reads and writes, Out what it makes"
            return _line(
                text, tokens[i]
            ), f"the kernel writes to .{tokens[i].text}, and {tokens[i].text} is In: {kinds}"
    return None


def _no_shared_memory(text: str, name: str) -> tuple[int, str] | None:
    """Dynamic shared memory, of which a launch has no bytes."""
    if "extern" not in text or "__shared__" not in text:  # quick, and mostly true
        return None
    found = outline(tokens_of(text))
    entry = entry_function(text, found, name)
    array = first_dynamic_array(found, entry[1]) if entry is not None else None
    if array is None or _is_conditional(text, array):
        return None
    say = 'shared_memory="..." in the spec says its bytes, as in shared_memory="4 * N"; 0 if it is never used'
    return _line(text, array), f"{array.text} is dynamic shared memory, of which the launch has 0 bytes: {say}"


def _is_shared(tokens: Sequence[Token], place: int) -> bool:
    """Whether the declaration up to a place says __shared__: compilers refuse such an array themselves."""
    words = (token.text for token in reversed(tokens[:place]))
    return "__shared__" in takewhile(lambda word: word not in (";", "{", "}"), words)


_RUN_TIME_SIZE = re.compile(r"\b(?:blockDim|gridDim)\s*\.|\.\s*(?:numel|rows|cols|depth|batch|extent)\s*\(")
_NO_TYPES = frozenset(["return", "else", "do", "and", "or", "not", "xor", "sizeof", "delete", "new", "case", "throw"])


def _array_of_run_time_size(text: str, name: str) -> tuple[int, str] | None:
    """A local array whose size a launch decides: g++ has such arrays, and CUDA has not."""
    if not any(_RUN_TIME_SIZE.search(match[0]) for match in re.finditer(r"\w\s+\w+\s*\[[^\];]*\]", text)):
        return None  # quick, and mostly true
    entry = entry_function(text, outline(tokens_of(text)), name)
    tokens = entry[1].body if entry is not None else []
    for i in range(2, len(tokens)):
        before, array, bracket = tokens[i - 2 : i + 1]
        is_declared = bracket.text == "[" and array.kind == before.kind == "word" and before.text not in _NO_TYPES
        end = closing(tokens, i) if is_declared and not _is_shared(tokens, i) else None
        if end is None or end == i + 1:
            continue
        size = text[tokens[i + 1].start : tokens[end - 1].end]
        if not _RUN_TIME_SIZE.search(size) or _is_conditional(text, array):
            continue
        constant = "CUDA has arrays of constant size: a number, a constant, or an integer of variants="
        return _line(text, array), f"{array.text}[{size}]: {constant}; a Scratch tensor has any size"
    return None


def _fields(text: str, name: str, members: Sequence[str]) -> Iterator[tuple[list[Token], int]]:
    """Where the entry indexes members of the rendered struct: the tokens of its body, and the place of each member.

    Not what the preprocessor may leave out, nor what another struct of the same name has.
    """
    names = "|".join(map(re.escape, members))
    if not members or not re.search(rf"\.\s*(?:{names})\s*[\[(]", text):  # quick, and mostly true
        return
    entry = entry_function(text, outline(tokens_of(text)), name)
    if entry is None:
        return
    kernel, function = entry
    structs = {match[1] for one in kernel.parameters if (match := re.fullmatch(r"(?:const )?Globals (\w+)", one))}
    tokens = function.body
    structs -= {one.text for before, one in pairwise(tokens) if before.kind == "word" and before.text != "return"}
    for i in range(2, len(tokens) - 1):
        is_member = tokens[i].text in members and tokens[i - 1].text == "." and tokens[i - 2].text in structs
        is_nested = i > 2 and tokens[i - 3].text in (".", "->", "::")
        if is_member and not is_nested and tokens[i + 1].text in ("[", "(") and not _is_conditional(text, tokens[i]):
            yield tokens, i


def _is_conditional(text: str, token: Token) -> bool:
    """Whether the preprocessor may leave a place out."""
    before = text[: token.start]
    opened, closed = (len(re.findall(rf"^\s*#\s*{word}", before, re.MULTILINE)) for word in ("if", "endif"))
    return opened > closed


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


def _several_indices(text: str, name: str, layouts: Sequence[str]) -> tuple[int, str] | None:
    """An index of two numbers in square brackets: C++20 takes the last one."""
    for tokens, i in _fields(text, name, layouts):
        end = closing(tokens, i + 1) if tokens[i + 1].text == "[" else None
        if end is None or end + 1 >= len(tokens):
            continue
        member = tokens[i].text
        if tokens[end + 1].text == "[" and (last := closing(tokens, end + 1)) is not None:
            indices = [text[tokens[a].start : tokens[b].end] for a, b in ((i + 2, end - 1), (end + 2, last - 1))]
            one = f".{member}[{indices[0]}][{indices[1]}]: a layout has one index in square brackets"
            return _line(text, tokens[i]), f"{one}; .{member}({', '.join(indices)}) has two"
        if _has_comma(tokens[i + 2 : end]):
            inside = text[tokens[i + 2].start : tokens[end - 1].end]
            one = f".{member}[{inside}] has one index, the last, as C++ reads a comma"
            several = "two" if inside.count(",") == 1 else "several"
            return _line(text, tokens[i]), f"{one}; .{member}({inside}) has {several}"
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
