"""Rewrites the launches in a CUDA source as calls, and the casts that hide a kernel's type from the compiler."""

from __future__ import annotations

from collections.abc import Set

from tkjit.source.lexer import Edit, Token, closing, opening, opening_angle
from tkjit.source.tokens import closing_angle

_CALLEE_ENDS = frozenset(["return", "else", "do", "case", "throw", "co_return", "operator"])
_CONDITIONS = frozenset(["if", "while", "for", "switch"])
_LAUNCH_FUNCTIONS = frozenset(["cudaLaunchKernel", "cudaLaunchCooperativeKernel", "cudaLaunchKernelExC"])


def launches(tokens: list[Token]) -> list[Edit]:
    """Rewrite ``kernel<T><<<1, 2>>>(x)`` as ``TKJIT_SIM_LAUNCH(kernel<T>)(1, 2)(x)``."""
    edits = []
    for i, token in enumerate(tokens):
        if token.text != "<<<" or token.kind != "mark":
            continue
        start, end = _callee(tokens, i), _end_of_configuration(tokens, i)
        if start is None or end is None:
            continue
        first, last, close = tokens[start], tokens[i - 1], tokens[end]
        edits += [
            Edit(first.start, first.start, "TKJIT_SIM_LAUNCH("),
            Edit(last.end, last.end, ")"),
            Edit(token.start, token.end, "("),
            Edit(close.start, close.end, ")"),
        ]
    return edits


def _callee(tokens: list[Token], launch: int) -> int | None:
    """Return the first index of the expression before ``<<<``: ``ns::kernel<T, (N > 2)>``, ``table[i]``, ``(*f)``."""
    i = launch  # tokens[i:launch] is the part of the expression found so far
    while True:
        before = tokens[i - 1] if i > 0 else None
        if before is None or before.kind == "string":
            return None
        if before.text in (")", "]"):
            bracket = opening(tokens, i - 1)
            if bracket is None:
                return None
            if i < launch and tokens[bracket - 1].text in _CONDITIONS and bracket > 0:
                return i
            i = bracket
            if before.text == ")" and not _is_call(tokens, bracket):
                return i
        elif before.text in (">", ">>", ">>>"):
            angle = opening_angle(tokens, i - 1)
            if angle is None:
                return None
            i = angle
        elif before.kind == "word" and before.text not in _CALLEE_ENDS:
            i = _qualified_start(tokens, i - 1)
            if tokens[i - 1].text not in (".", "->") or i == 0:
                return i
            i -= 1
        else:
            return None


def _is_call(tokens: list[Token], bracket: int) -> bool:
    before = tokens[bracket - 1] if bracket > 0 else None
    if before is None or (before.kind == "word" and before.text in _CALLEE_ENDS | _CONDITIONS):
        return False
    return before.kind == "word" or before.text in (")", "]", ">", ">>", ">>>")


def _qualified_start(tokens: list[Token], name: int) -> int:
    """Return the first index of a name with its qualifiers, such as ``::a::B<T>::template`` or ``prefix##``."""
    i = name
    while i > 0:
        before = tokens[i - 1].text
        if before == "template" or (before == "##" and i > 1):
            i -= 1 if before == "template" else 2
        elif before == "::":
            i -= 1
            if i > 0 and tokens[i - 1].text in (">", ">>", ">>>"):
                angle = opening_angle(tokens, i - 1)
                if angle is None or angle == 0:
                    return i
                i = angle - 1
            elif i > 0 and tokens[i - 1].kind == "word" and tokens[i - 1].text not in _CALLEE_ENDS:
                i -= 1
            else:
                return i  # a name in the global namespace
        else:
            return i
    return i


def _end_of_configuration(tokens: list[Token], launch: int) -> int | None:
    """Return the index of the ``>>>`` that ends a configuration: the one before ``(``, or at the end of a macro."""
    depth = nested = 0
    for i in range(launch + 1, len(tokens)):
        text = tokens[i].text
        if tokens[i].kind != "mark":
            continue
        nested += text == "<<<"
        if text in ("(", "[", "{"):
            depth += 1
        elif text in (")", "]", "}"):
            depth -= 1
        if depth < 0 or (text == ";" and depth == 0):
            return None
        if text == ">>>" and depth == 0 and (i + 1 == len(tokens) or tokens[i + 1].text == "("):
            if nested == 0:
                return i
            nested -= 1
    return None


def casts_of_kernels(tokens: list[Token]) -> list[Edit]:
    """Remove the cast of a launched kernel: ``(const void*)kernel``, ``reinterpret_cast<void*>(kernel)``."""
    casts = _casts_in_launches(tokens).items()
    return [Edit(token.start, token.end, "") for start, count in casts for token in tokens[start : start + count]]


def _casts_in_launches(tokens: list[Token]) -> dict[int, int]:
    """Map the first index of each cast in a call of a launch function to its number of tokens."""
    casts = {}
    for i in range(len(tokens) - 2):
        if tokens[i].text in _LAUNCH_FUNCTIONS and tokens[i + 1].text == "(":
            # cudaLaunchKernelExC takes its configuration before the kernel
            start = i + 2 if tokens[i].text != "cudaLaunchKernelExC" else _second_argument(tokens, i + 1)
            casts[start] = _cast(tokens, start)
    return casts


def kernels_as_pointers(tokens: list[Token], kernels: Set[str]) -> list[Edit]:
    """Rewrite ``(void*)kernel<T>`` as ``::tkjit::sim::as_pointer(kernel<T>)``, which keeps the kernel's parameters.

    Parameters
    ----------
    kernels : set of str
        The names of the source's kernels, without namespaces.
    """
    if not kernels:
        return []
    edits = []
    launched = _casts_in_launches(tokens)
    for i, token in enumerate(tokens):
        cast = _cast(tokens, i) if token.text in ("(", "reinterpret_cast") and i not in launched else 0
        if not cast:
            continue
        last = tokens[i + cast - 1]
        if token.text != "(":
            name = _end_of_name(tokens, i + cast + 1, kernels)
            if name is not None and name + 1 == closing(tokens, i + cast):
                edits.append(Edit(token.start, last.end, "::tkjit::sim::as_pointer"))
        elif (name := _end_of_name(tokens, i + cast, kernels)) is not None:
            end = tokens[name].end
            edits += [Edit(token.start, last.end, "::tkjit::sim::as_pointer("), Edit(end, end, ")")]
    return edits


def _end_of_name(tokens: list[Token], start: int, kernels: Set[str]) -> int | None:
    """Return the last index of the kernel's name at ``start``, such as ``&ns::kernel<T>``; None for anything else."""
    i = start + (tokens[start].text == "&")
    while i + 2 < len(tokens) and (tokens[i].text == "::" or tokens[i + 1].text == "::"):
        i += 1
    if i >= len(tokens) or tokens[i].text not in kernels:
        return None
    if i + 1 < len(tokens) and tokens[i + 1].text == "<":
        return closing_angle(tokens, i + 1)
    return i if i + 1 == len(tokens) or tokens[i + 1].text != "(" else None


def _cast(tokens: list[Token], start: int) -> int:
    """Return the number of tokens of the cast to ``void*`` at ``start``; 0 if there is no such cast."""
    words = [token.text for token in tokens[start : start + 6]]
    for words_before, bracket in ((0, "("), (1, "<")):
        named = words_before == 0 or words[:1] in (["reinterpret_cast"], ["static_cast"])
        inside = words[words_before:]
        if not named or inside[:1] != [bracket]:
            continue
        for pattern in (["const", "void", "*"], ["void", "const", "*"], ["void", "*"]):
            end = ")" if bracket == "(" else ">"
            if inside[1 : len(pattern) + 2] == [*pattern, end]:
                return words_before + len(pattern) + 2
    return 0


def _second_argument(tokens: list[Token], bracket: int) -> int:
    end = closing(tokens, bracket) or len(tokens)
    depth = 0
    for i in range(bracket + 1, end):
        depth += (tokens[i].text in ("(", "[", "{")) - (tokens[i].text in (")", "]", "}"))
        if tokens[i].text == "," and depth == 0:
            return i + 1
    return end
