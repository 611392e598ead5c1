"""Why C++ refuses a call: what the compiler says, in few lines."""

from __future__ import annotations

import re

from tkjit.bindings.declarations import Declarations, signature
from tkjit.bindings.expressions import Expression
from tkjit.errors import CompileError

_ERROR = re.compile(r"^(?P<file>[^\n:]*):(?P<line>\d+)(?::\d+)?: (?:fatal )?error: (?P<text>.*)$", re.MULTILINE)
_CANDIDATE = re.compile(r": note: candidate: (?P<text>.*)$", re.MULTILINE)
_REASON = re.compile(r": note:   (?P<text>[^\n]*)$", re.MULTILINE)
_MOST = 6  # lines of each kind


def refusal(call: Expression, error: CompileError, declarations: Declarations) -> str:
    """A text that names the call, the compiler's first error, and each candidate with the reason against it."""
    log = error.log
    found = _ERROR.search(log)
    first = found["text"] if found else error.summary.split("\n")[0]
    lines = [f"{call.name}({', '.join(map(str, call.given))}): C++ refuses it: {_plain(first)}"]
    if "cannot bind non-const lvalue reference" in first:
        kind = next((one.type for one in call.given if one.how in ("", "text")), "int")
        lines.append(f'  it wants to write to an argument: pass an object, such as library.cpp("{kind}")(value)')
    candidates = _candidates(log)
    for candidate, reason in candidates[:_MOST]:
        lines.append(f"  candidate: {candidate}" + (f"\n    {reason}" if reason else ""))
    if not candidates:
        lines += [f"  declared: {one}" for one in _declared(call, declarations)[:_MOST]]
    if len(candidates) > _MOST:
        lines.append(f"  and {len(candidates) - _MOST} more")
    lines.append(f"  whole log: {error.log_path}")
    return "\n".join(lines)


def _candidates(log: str) -> list[tuple[str, str]]:
    """The candidates that the compiler lists, and what it says below each."""
    found = []
    for each in _CANDIDATE.finditer(log):
        following = log[each.end() : log.find(": note: candidate: ", each.end()) % (len(log) + 1)]
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
