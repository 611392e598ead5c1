"""Explains why C++ rejects a call, with a few lines of the compiler's output."""

from __future__ import annotations

import re

from tkjit.bindings.declarations import Declarations, signature
from tkjit.bindings.expressions import Expression
from tkjit.errors import CompileError

_ERROR = re.compile(r"^(?P<file>[^\n:]*):(?P<line>\d+)(?::\d+)?: (?:fatal )?error: (?P<text>.*)$", re.MULTILINE)
# g++ 16 nests notes as lists, with * instead of the bullet if the locale has no Unicode
_CANDIDATE = re.compile(r"(?:: note:|^ *[•*]) candidate(?: \d+)?: (?P<text>.*)$", re.MULTILINE)
_REASON = re.compile(r"(?:: note:  |^ *[•*]) +(?P<text>[^\n]*)$", re.MULTILINE)
_MAX_LINES = 6  # for each kind of line


def refusal(call: Expression, error: CompileError, declarations: Declarations) -> str:
    """Return a message with the call, the compiler's first error, and why C++ rejected each candidate."""
    log = error.log
    found = _ERROR.search(log)
    first = found["text"] if found else error.summary.split("\n")[0]
    lines = [f"{call.name}({', '.join(map(str, call.arguments))}): C++ rejects it: {_plain(first)}"]
    if "cannot bind non-const lvalue reference" in first:
        kind = next((one.type for one in call.arguments if one.how in ("", "text")), "int")
        lines.append(f'  C++ wants to modify the argument: pass an object, such as library.cpp("{kind}")(value)')
    candidates = _candidates(log)
    for candidate, reason in candidates[:_MAX_LINES]:
        lines.append(f"  candidate: {candidate}" + (f"\n    {reason}" if reason else ""))
    if not candidates:
        lines += [f"  declared: {one}" for one in _declared(call, declarations)[:_MAX_LINES]]
    if len(candidates) > _MAX_LINES:
        lines.append(f"  and {len(candidates) - _MAX_LINES} more")
    lines.append(f"  whole log: {error.log_path}")
    return "\n".join(lines)


def _candidates(log: str) -> list[tuple[str, str]]:
    """Return the candidates that the compiler lists, each with the reason below it."""
    found = []
    candidates = list(_CANDIDATE.finditer(log))
    ends = [*(one.start() for one in candidates[1:]), len(log)]
    for each, end in zip(candidates, ends, strict=False):
        following = log[each.end() : end]
        reason = next(
            (one["text"].strip() for one in _REASON.finditer(following) if "deduction" not in one["text"]), ""
        )
        found.append((_plain(each["text"]), _plain(reason)))
    return list(dict.fromkeys(found))


def _declared(call: Expression, declarations: Declarations) -> list[str]:
    namespace, _, name = call.name.rpartition("::")
    declared = declarations.find(namespace, name)
    if declared is None:
        return []
    return [signature(call.name, overload) for overload in declared.facts.get("overloads", [])]


def _plain(text: str) -> str:
    return re.sub(r"tkjit::bind::", "", re.sub("[\u2018\u2019]", "'", text))
