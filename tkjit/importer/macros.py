"""Expands the macros of a source that contain launches: ``AT_DISPATCH_*``, and the source's own.

The C++ compiler's preprocessor expands them. Constants are not expanded, so that expressions keep the names that their
author gave them. The source's directives are hidden from the preprocessor, because an ``#if`` that is off may contain
a launch.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tkjit.importer.host_functions import host_of
from tkjit.source.lexer import Token, closing, macro_body, macros, tokens_of
from tkjit.source.scopes import outline

_LAUNCHING = frozenset(["<<<", "launch_kernel", "cudaLaunchKernelEx"])
_HIDDEN = "pragma tkjit "
_MARKER = re.compile(r'^# (\d+) "[^"\n]*"[ \d]*$', re.MULTILINE)
_TIMEOUT_S = 60


@dataclass(frozen=True)
class HostText:
    """A source's text after macro expansion, in which the importer looks for launches.

    Parameters
    ----------
    lines : tuple of int
        The source's line number for each line of the text; empty if the text and the source have the same lines.
    notes : tuple of str
        The reasons why some macros were not expanded.
    """

    text: str
    lines: tuple[int, ...] = field(default=())
    notes: tuple[str, ...] = ()

    def line_of(self, offset: int) -> int:
        """Return the source's line, from 1, of an offset in the text."""
        line = self.text.count("\n", 0, offset)
        return self.lines[line] if self.lines else line + 1


def expand_launches(text: str, known: Mapping[str, str], cxx: Path | None) -> HostText:
    """Expand a source's own macros, and those of its headers that launch kernels or get a launch as an argument.

    Parameters
    ----------
    known : mapping
        The ``#define`` lines of the headers that it includes, by name.
    cxx : Path or None
        The C++ compiler. If None, nothing is expanded.
    """
    tokens = tokens_of(text)
    own_macros = {define.inner[0].text: text[define.start : define.end] for define in macros(tokens) if define.inner}
    all_macros = {**own_macros, **known}
    chosen = _chosen(tokens, own_macros, all_macros)
    if not chosen or cxx is None:
        return HostText(text)
    command, hidden = [str(cxx), "-E", "-w", "-x", "c++", "-"], _hide(text, tokens)
    notes: list[str] = []
    while chosen:
        given = "\n".join([*(_on_one_line(all_macros[name]) for name in chosen), '# 1 "source"', hidden])
        try:
            found = subprocess.run(
                command, input=given, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return HostText(text, notes=(f"macros are not expanded, so launches in them are not found: {error}",))
        if found.returncode == 0:
            _, _, expanded = found.stdout.partition('# 1 "source"\n')
            return replace(_with_lines(expanded), notes=tuple(notes))
        # All branches of an #if are read. Two branches may define a macro with different parameters, and then a use may
        # not match the definition that was chosen.
        misused = [name for name in re.findall(r'macro "(\w+)"', found.stderr) if name in chosen]
        if not misused:
            break
        chosen = [name for name in chosen if name not in misused]
        notes.append(f"{', '.join(dict.fromkeys(misused))}: not expanded, because a use does not match the definition")
    return HostText(text, notes=tuple(notes) or ("macros are not expanded: the preprocessor rejects them",))


def _chosen(tokens: list[Token], own: Mapping[str, str], known: Mapping[str, str]) -> list[str]:
    """Return the macros to expand.

    These are the source's own macros, macros that launch, macros around a launch, and the macros that any of these use.
    A call of one of the source's host functions counts as a launch, because it may lead to one.
    """
    defines = {name: macros(tokens_of(line)) for name, line in known.items()}
    bodies = {name: macro_body(found[0]) for name, found in defines.items() if found}
    code = [token for token in tokens if token.kind != "directive"]
    functions = {host.name for function in outline(tokens).functions if (host := host_of(function)) is not None}
    launching = {name for name, line in own.items() if _takes_arguments(line)}
    while True:
        marks = _LAUNCHING | functions | launching
        found = {name for name, body in bodies.items() if any(token.text in marks for token in body)}
        for text in (code, *bodies.values()):
            found.update(_around(text, marks, bodies))
        if found <= launching:
            break
        launching |= found
    chosen = set(launching)
    reached = list(launching)
    while reached:
        for token in bodies[reached.pop()]:
            if token.text in bodies and token.text not in chosen and _takes_arguments(known[token.text]):
                chosen.add(token.text)
                reached.append(token.text)
    return [name for name in known if name in chosen]


def _around(text: Sequence[Token], marks: Iterable[str], known: Iterable[str]) -> set[str]:
    """Return the macros that have a launch among their arguments."""
    found: set[str] = set()
    open_calls: list[tuple[str, int]] = []
    for i, token in enumerate(text):
        while open_calls and i > open_calls[-1][1]:
            open_calls.pop()
        if token.text in marks:
            found.update(name for name, _ in open_calls)
        if token.text in known and i + 1 < len(text) and text[i + 1].text == "(":
            end = closing(list(text), i + 1)
            if end is not None:
                open_calls.append((token.text, end))
    return found


def _takes_arguments(define: str) -> bool:
    return re.match(r"#\s*define\s+\w+\(", define) is not None


def _on_one_line(directive: str) -> str:
    return re.sub(r"\\\r?\n", " ", directive)


def _hide(text: str, tokens: list[Token]) -> str:
    """Turn each directive into a pragma, which the preprocessor keeps; line numbers do not change."""
    found, end = [], 0
    for token in tokens:
        if token.kind == "directive":
            directive = text[token.start : token.end]
            found += [text[end : token.start], f"#{_HIDDEN}", _on_one_line(directive)[1:], "\n" * directive.count("\n")]
            end = token.end
    return "".join([*found, text[end:]])


def _with_lines(expanded: str) -> HostText:
    """Return the preprocessor's output without line markers, and the source lines that the markers give."""
    kept_lines, lines, line = [], [], 1
    for text in expanded.split("\n"):
        marker = _MARKER.match(text)
        if marker:
            line = int(marker[1])
            continue
        kept_lines.append(re.sub(rf"^(\s*)#{_HIDDEN}", r"\1#", text))
        lines.append(line)
        line += 1
    return HostText("\n".join(kept_lines), tuple(lines))
