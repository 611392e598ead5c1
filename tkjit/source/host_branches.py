"""Gives host functions of headers the text that they have where ``__CUDA_ARCH__`` is not defined.

nvcc compiles a source twice; the simulator's compiler once, as device code. In headers, macros hide which functions are
for a device. So the source is preprocessed both ways, with annotations left as they are, and the texts are compared:

* In a function for the host alone, the host's lines take the place of the device's.
* In one for both, the device's lines stay. If they have inline PTX, which needs a thread of a kernel, a call by the
  host is an error (``require_device``).
* Outside of functions, what only the host has is added. A constant that each has otherwise is refused, since code for
  both uses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tkjit.source.asm import STATEMENT
from tkjit.source.cuda_arch import REFUSAL
from tkjit.source.lexer import Edit, apply_edits

_ANNOTATIONS = re.compile(r"\b__(?:global|device|host)__\b")
_MARK = re.compile(r'# (\d+) ("(?:[^"\\]|\\.)*")')
_BRACE = re.compile(
    r'R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)"|"(?:[^"\\\n]|\\.)*"'
    r"|(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)*'|[{};]",
    re.DOTALL,
)
_END_OF_HEAD = re.compile(
    r"\)\s*(?:const|volatile|noexcept|override|final|mutable|&|\s)*(?:->[^{};]*)?(?::[^:].*)?$", re.DOTALL
)
_CONSTANT = re.compile(r"\s*(?:(?:static|inline|__device__|__host__)\s+)*(?:constexpr|const)\s[^(){}]*=[^{}]*$")
# a declaration for hosts of what only device code has (cuRAND's), and the simulator has for both
_INDEX = re.compile(r"\s*extern\s+(?:const\s+)?(?:dim3|uint3)\s+(?:threadIdx|blockIdx|blockDim|gridDim)\s*;\s*$")
_GUARD = " ::tkjit::sim::require_device();"
_RESYNC_LINES = 20_000  # how much further a text may have what the other one lacks


class Line(NamedTuple):
    """A line of a preprocessed text that has one in a file: where that is, and where the text has it."""

    file: str
    number: int
    text: str
    start: int

    @property
    def key(self) -> tuple[str, int, str]:
        return self[:3]


class Body(NamedTuple):
    """A function's: where its brace is, and for whom it is compiled."""

    start: int
    kind: str  # "device", "host" or "both"


def with_host_branches(device: str, host: str) -> str:
    """The text of the device's preprocessing, with the host's lines where the host alone runs them.

    Its annotations stay.

    >>> device = '# 1 "a.cuh"\\nint f() {\\nreturn 1;\\n}\\n__device__ int g() {\\nreturn 1;\\n}'
    >>> host = '# 1 "a.cuh"\\nint f() {\\n\\n\\nreturn 2;\\n}\\n__device__ int g() {\\n\\n\\nreturn 2;\\n}'
    >>> with_host_branches(device.replace("}", '# 5 "a.cuh"\\n}', 1), host).replace("\\n", "|")
    '# 1 "a.cuh"|int f() {|# 4 "a.cuh"|return 2;|# 5 "a.cuh"|}|__device__ int g() {|return 1;|}'
    """
    edits = []
    guarded: set[int] = set()
    scopes = _Scopes(device)
    for own, others, following in _differences(_lines(device), _lines(host)):
        body = scopes.body_at(own[0].start if own else following.start)
        if body is None:
            edits += _outside(own, others, following)
        elif body.kind == "host":
            edits.append(_replaced(own, others, following))
        elif body.kind == "both" and body.start not in guarded and any(STATEMENT.search(line.text) for line in own):
            guarded.add(body.start)
            edits.append(Edit(body.start + 1, body.start + 1, _GUARD))
    return apply_edits(device, edits)


def _outside(own: list[Line], others: list[Line], following: Line) -> list[Edit]:
    """What becomes of a difference outside of functions."""
    if not own:
        return [_replaced(own, [line for line in others if not _INDEX.match(line.text)], following)]
    constant = next((line for line in own if _CONSTANT.match(line.text)), None)
    if constant is None or not any(_CONSTANT.match(line.text) for line in others):
        return []
    refusal = f'static_assert(false, "{REFUSAL} host code has this constant otherwise"); '
    return [Edit(constant.start, constant.start, refusal)]


def without_annotations(text: str) -> str:
    """The text as a compiler for the host takes it."""
    return _ANNOTATIONS.sub("", text)


def _replaced(own: list[Line], others: list[Line], following: Line) -> Edit:
    text = "".join(f"# {line.number} {line.file}\n{line.text}\n" for line in others)
    end = following.start
    return Edit(own[0].start if own else end, end, f"{text}# {following.number} {following.file}\n")


def _lines(text: str) -> list[Line]:
    found = []
    file, number, start = "", 0, 0
    for line in text.split("\n"):
        if line.startswith("# ") and (mark := _MARK.match(line)):
            number, file = int(mark[1]), mark[2]
        else:
            if line and not line.isspace():
                found.append(Line(file, number, line, start))
            number += 1
        start += len(line) + 1
    return found


def _differences(device: list[Line], host: list[Line]) -> Iterator[tuple[list[Line], list[Line], Line]]:
    """Lines that only one text has, or both have otherwise, and the device's line behind them."""
    i = j = 0
    while i < len(device):
        if j < len(host) and device[i].key == host[j].key:
            i, j = i + 1, j + 1
            continue
        ahead: dict[tuple[str, int, str], int] = {}
        for k in range(j, min(j + _RESYNC_LINES, len(host))):
            ahead.setdefault(host[k].key, k)
        together = next((k for k in range(i, min(i + _RESYNC_LINES, len(device))) if device[k].key in ahead), None)
        if together is None:
            return
        k = ahead[device[together].key]
        yield device[i:together], host[j:k], device[together]
        i, j = together, k


class _Scopes:
    """The functions of a text, asked for from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._braces = _BRACE.finditer(text)
        self._next = next(self._braces, None)
        self._open: list[tuple[int, str]] = []  # braces, with what stands before each
        self._begun = 0  # behind the last brace or semicolon

    def body_at(self, place: int) -> Body | None:
        """The body of the function that a place is in; None outside of all."""
        while self._next is not None and self._next.start() < place:
            mark = self._next[0]
            if mark in "{;}":
                if mark == "{":
                    self._open.append((self._next.start(), self._text[self._begun : self._next.start()]))
                elif mark == "}" and self._open:
                    self._open.pop()
                self._begun = self._next.end()
            self._next = next(self._braces, None)
        functions = [(start, head) for start, head in self._open if _is_function(head)]
        if not functions:
            return None
        within = any("__device__" in head for _, head in functions[1:])  # a lambda in a host function
        return Body(functions[0][0], "device" if within else _kind(functions[0][1]))


def _is_function(head: str) -> bool:
    without_marks = re.sub(r"^#.*$", "", head, flags=re.MULTILINE).rstrip()
    return _END_OF_HEAD.search(without_marks) is not None


def _kind(head: str) -> str:
    words = set(re.findall(r"\w+", head))
    if not words & {"__global__", "__device__"}:
        return "both" if words & {"constexpr", "consteval"} else "host"  # as --expt-relaxed-constexpr has it
    return "both" if "__host__" in words else "device"
