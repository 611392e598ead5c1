"""Adapts a preprocessed source, which contains all its headers.

``adapt`` sees the source alone. If a header has inline PTX, launches or dynamic shared memory, tkjit preprocesses the
source first. The resulting text is large (4 MB for ThunderKittens). So it is searched for a few words, and only the
statements around a match are tokenized.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from tkjit.ptx import PtxError
from tkjit.source.asm import ASM, STATEMENT, asm_statement, constant_texts
from tkjit.source.launches import launches
from tkjit.source.lexer import Edit, Token, apply_edits, tokens_from
from tkjit.source.shared_memory import dynamic_arrays, static_variables

# These are searched for one by one as plain text, because one pattern for all of them takes ten times as long.
_FINDS = ("asm", "<<<", "__shared__")
_WORD = re.compile(r"\w*")
_IN_HEADERS = re.compile(r"<<<|extern\s+__shared__|\b__CUDA_ARCH__\b")
# nvcc accepts a macro whose text is a pragma, as CUTLASS has. For g++, the "#" of a preprocessed text is in column 1.
_PRAGMA_OF_MACRO = re.compile(r"(?<=[ \t])#pragma unroll(?: \d+)?")
# Matches casts to void* of something that may be a kernel. `(void*)` may also be a list of parameters.
_TO_VOID = r"(?:const\s+void|void(?:\s+const)?)\s*\*\s*"
_CAST = re.compile(
    rf"(?P<before>[(,=?:{{]\s*|\breturn\s+)\(\s*{_TO_VOID}\)(?=\s*&?\s*(?!const\b|noexcept\b)[A-Za-z_])"
    rf"|\breinterpret_cast\s*<\s*{_TO_VOID}>(?=\s*\()"
)
_MARK = re.compile(r'# \d+ "((?:[^"\\]|\\.)*)"([ \d]*)')


def needs_adapting(text: str, *, is_header: bool) -> bool:
    """Whether a text has inline PTX or, for a header, anything that ``adapt`` rewrites only in sources."""
    return STATEMENT.search(text) is not None or (is_header and _IN_HEADERS.search(text) is not None)


def adapt_preprocessed(text: str, own: str = "") -> str:
    """Rewrite a preprocessed text for the simulator, keeping its line numbers.

    Parameters
    ----------
    own : str
        The directory of tkjit's headers, in which casts stay.
    """
    text = _PRAGMA_OF_MACRO.sub("", text)
    edits = _casts(text, own)
    end = 0
    texts = cache(lambda: constant_texts(text))
    for place, word in _finds(text):
        if place >= end:
            end, found = _edits_at(text, place, word, texts)
            edits += found
    return apply_edits(text, [_of_same_lines(text, edit) for edit in edits])


def _casts(text: str, own: str) -> list[Edit]:
    """Let the simulator know the types of kernels that a header casts to ``void*``, so that it can launch the pointers.

    The operator that replaces a cast takes the same operand.
    """
    return [
        Edit(cast.end("before") if cast["before"] else cast.start(), cast.end(), "::tkjit::sim::to_pointer->*")
        for cast in _CAST.finditer(text)
        if not _is_of_system(text, cast.start(), own)
    ]


def _of_same_lines(text: str, edit: Edit) -> Edit:
    missing = text.count("\n", edit.start, edit.end) - edit.text.count("\n")
    return edit._replace(text=edit.text + "\n" * missing)


def _finds(text: str) -> list[tuple[int, str]]:
    """Return the positions of all words that may have to be adapted, in the order of the text."""
    found = []
    for wanted in _FINDS:
        at = text.find(wanted)
        while at >= 0:
            start = at
            while start > 0 and (text[start - 1].isalnum() or text[start - 1] == "_") and wanted != "<<<":
                start -= 1
            word = wanted if wanted == "<<<" else _WORD.match(text, start)[0]  # type: ignore[index]
            if word in ASM or word == wanted:
                found.append((start, word))
            at = text.find(wanted, at + len(wanted))
    return sorted(found)


def _edits_at(text: str, place: int, word: str, texts: Callable[[], list[str]]) -> tuple[int, list[Edit]]:
    """Return the end of the statement at a position, and the edits for the statement."""
    if word in ASM:
        if _is_of_system(text, place):
            return place + 1, []
        try:
            end, edit = asm_statement(text, place, texts)
        except PtxError as error:
            reason, end = error.args
            edit = Edit(place, end, _error(f"inline PTX: {reason}", place))
        return end, [edit] if edit else []
    start, tokens = _statement(text, place)
    if word == "<<<":
        edits = _in_one(text, launches(tokens))
    elif any(token.text == "extern" for token in tokens):
        edits = dynamic_arrays(tokens)
    else:
        edits = static_variables(text, tokens, start)
    return max([place + 1, *(edit.end for edit in edits)]), edits


def _in_one(text: str, launch: list[Edit]) -> list[Edit]:
    """Return a launch's edits with their macro expanded, because preprocessing is already over."""
    if not launch:
        return []
    kernel = text[launch[0].end : launch[1].start]
    return [Edit(launch[0].start, launch[1].end, _launcher(kernel)), *launch[2:]]


def _launcher(kernel: str) -> str:
    """Return the expansion of detail/host_launch.h's ``TKJIT_SIM_LAUNCH``, on one line."""
    kernel = " ".join(kernel.split())
    return (
        f"::tkjit::sim::Launcher{{[&](auto tkjit_as) -> decltype(tkjit_as({kernel})) {{ return tkjit_as({kernel}); }}, "
        f"[&](const auto&... tkjit_values) {{ {kernel}(tkjit_values...); }}}}"
    )


def _error(message: str, place: int) -> str:
    """Return a statement that fails only if the compiler generates code for it, so not in an unused template."""
    quoted = message.replace("\\", "\\\\").replace('"', '\\"')
    name = f"tkjit_refused_{place}"
    return f'do {{ extern void {name}() __attribute__((error("{quoted}"))); {name}(); }} while (0)'


def _statement(text: str, place: int) -> tuple[int, list[Token]]:
    """Return the start of the statement around a position, and the statement's tokens including the semicolon."""
    start = max(text.rfind(mark, 0, place) for mark in ";{}") + 1
    tokens = []
    depth = 0
    for token in tokens_from(text, start):
        tokens.append(token)
        if token.kind == "mark":
            depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
            if token.text == ";" and depth <= 0 and token.start > place:
                break
    return start, tokens


def _is_of_system(text: str, place: int, own: str = "") -> bool:
    """Whether the line mark before a position belongs to a system header, or to one in the directory ``own``."""
    start = text.rfind("\n# ", 0, place) + 1
    mark = _MARK.match(text, start)
    return mark is not None and ("3" in mark[2].split() or (own != "" and mark[1].startswith(own)))
