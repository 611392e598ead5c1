"""Finds mistakes in a source that compilers accept silently."""

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
    """The parts of a spec that decide what its kernel receives.

    Parameters
    ----------
    layouts : sequence of str
        The members of the rendered struct that are layouts.
    read_only : sequence of str
        The layouts that are ``In``.
    arguments : sequence of str
        The names of plain arguments, in the order in which they are passed.
    shared_memory : bool
        Whether the spec sets the amount of dynamic shared memory.
    """

    layouts: Sequence[str] = ()
    read_only: Sequence[str] = ()
    arguments: Sequence[str] = ()
    shared_memory: bool = True


def find_mistake(text: str, entry: str, passed: Passed) -> tuple[int, str] | None:
    """Find a mistake that compiles, and return its line and a message; None if no mistake is found.

    Parameters
    ----------
    text : str
        The source.
    entry : str
        The spec's entry, such as ``relu<T>``.
    passed : Passed

    Examples
    --------
    >>> find_mistake("__global__ void f(Globals g) { g.x[1, 2] = 0; }", "f", Passed(["x"]))
    (1, '.x[1, 2] has one index, the last, because C++ discards what precedes a comma; .x(1, 2) has two')
    >>> find_mistake("void f(Globals g) {}", "f", Passed(["x"]))
    (1, 'f(Globals g) is not a kernel; write __global__ before it')
    >>> find_mistake("__global__ void f(Globals g) { g.x[0] += 1; }", "f", Passed(["x"], ["x"]))
    (1, 'the kernel writes to .x, but x is In; declare it InOut if the kernel also reads it, else Out')
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
    """Find an assignment to an element of an ``In`` tensor, which would silently change the caller's tensor."""
    for tokens, i in _fields(text, name, read_only):
        end = closing(tokens, i + 1)
        if end is not None and _ASSIGNMENT.match(text, tokens[end].end):
            member = tokens[i].text
            remedy = "declare it InOut if the kernel also reads it, else Out"
            return _line(text, tokens[i]), f"the kernel writes to .{member}, but {member} is In; {remedy}"
    return None


def _no_shared_memory(text: str, name: str) -> tuple[int, str] | None:
    """Find dynamic shared memory for which the launch provides no bytes."""
    if "extern" not in text or "__shared__" not in text:  # avoids tokenizing most sources
        return None
    found = outline(tokens_of(text))
    entry = entry_function(text, found, name)
    array = first_dynamic_array(found, entry[1]) if entry is not None else None
    if array is None or _is_conditional(text, array):
        return None
    remedy = 'set its size in bytes in the spec, as in shared_memory="4 * N", or 0 if it is never used'
    return _line(text, array), f"{array.text} is dynamic shared memory, of which the launch has 0 bytes; {remedy}"


def _is_shared(tokens: Sequence[Token], place: int) -> bool:
    """Whether an array declaration is ``__shared__``, in which case compilers themselves reject a run-time size."""
    words = (token.text for token in reversed(tokens[:place]))
    return "__shared__" in takewhile(lambda word: word not in (";", "{", "}"), words)


_RUN_TIME_SIZE = re.compile(r"\b(?:blockDim|gridDim)\s*\.|\.\s*(?:numel|rows|cols|depth|batch|extent)\s*\(")
_NO_TYPES = frozenset(["return", "else", "do", "and", "or", "not", "xor", "sizeof", "delete", "new", "case", "throw"])


def _array_of_run_time_size(text: str, name: str) -> tuple[int, str] | None:
    """Find a local array whose size is known only at launch, which g++ accepts but CUDA does not allow."""
    if not any(_RUN_TIME_SIZE.search(match[0]) for match in re.finditer(r"\w\s+\w+\s*\[[^\];]*\]", text)):
        return None  # avoids tokenizing most sources
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
        constant = "the size of an array must be constant in CUDA: a number, a constant, or an integer of variants="
        return _line(text, array), f"{array.text}[{size}]: {constant}; a Scratch tensor can have any size"
    return None


def _fields(text: str, name: str, members: Sequence[str]) -> Iterator[tuple[list[Token], int]]:
    """Yield each place where the entry indexes a member of the rendered struct, as (tokens of the entry's body, index).

    It skips code that the preprocessor may drop, and members of a local variable that has the parameter's name.
    """
    names = "|".join(map(re.escape, members))
    if not members or not re.search(rf"\.\s*(?:{names})\s*[\[(]", text):  # avoids tokenizing most sources
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
    """Whether the preprocessor may drop the code at a token."""
    before = text[: token.start]
    opened, closed = (len(re.findall(rf"^\s*#\s*{word}", before, re.MULTILINE)) for word in ("if", "endif"))
    return opened > closed


def _other_order(text: str, name: str, passed: Sequence[str]) -> tuple[int, str] | None:
    """Find plain arguments in another order than the kernel's parameters; such a spec compiles if the types match."""
    kernels = [kernel for kernel in kernel_functions(text) if kernel.name == name] if len(passed) > 1 else []
    for kernel in kernels if len(kernels) == 1 else ():  # overloads are skipped: it is unknown which one is meant
        names = [match[0] for one in kernel.parameters if (match := re.search(r"\w+(?=\W*$)", one))]
        if sorted(names) == sorted(passed) and names != list(passed):
            place = re.search(rf"\b{re.escape(name)}\s*\(", text)
            line = text.count("\n", 0, place.start() if place else 0) + 1
            order = f'the spec passes {", ".join(passed)}; fields="{" ".join(names)}" is the kernel\'s order'
            return line, f"{kernel}: {order}"
    return None


def _several_indices(text: str, name: str, layouts: Sequence[str]) -> tuple[int, str] | None:
    """Find several indices in square brackets. C++20 uses only the last one."""
    for tokens, i in _fields(text, name, layouts):
        end = closing(tokens, i + 1) if tokens[i + 1].text == "[" else None
        if end is None or end + 1 >= len(tokens):
            continue
        member = tokens[i].text
        if tokens[end + 1].text == "[" and (last := closing(tokens, end + 1)) is not None:
            indices = [text[tokens[a].start : tokens[b].end] for a, b in ((i + 2, end - 1), (end + 2, last - 1))]
            problem = f".{member}[{indices[0]}][{indices[1]}]: a layout has one index in square brackets"
            return _line(text, tokens[i]), f"{problem}; .{member}({', '.join(indices)}) has two"
        if _has_comma(tokens[i + 2 : end]):
            inside = text[tokens[i + 2].start : tokens[end - 1].end]
            problem = f".{member}[{inside}] has one index, the last, because C++ discards what precedes a comma"
            several = "two" if inside.count(",") == 1 else "several"
            return _line(text, tokens[i]), f"{problem}; .{member}({inside}) has {several}"
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
    """Find a function with the entry's name but without ``__global__``, which a host compiler accepts."""
    own_name = name.rpartition("::")[2]
    if re.search(rf"__global__[^;{{}}]*\b{re.escape(own_name)}\b", text):  # avoids tokenizing most sources
        return None
    tokens = tokens_of(text)
    if any("__global__" in (token.text for token in macro.inner) for macro in macros(tokens)):
        return None  # a macro may define kernels
    if any(kernel.name.rpartition("::")[2] == own_name for kernel in kernel_functions(text)):
        return None
    for function in outline(tokens).functions:
        head = function.head
        for i in range(len(head) - 1):
            if head[i].text == own_name and head[i + 1].text == "(" and not function.is_member:
                written = " ".join(text[head[i].start : head[-1].end].split())
                return _line(text, head[i]), f"{written} is not a kernel; write __global__ before it"
    return None


def _line(text: str, token: Token) -> int:
    return text.count("\n", 0, token.start) + 1
