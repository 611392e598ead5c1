"""Restores the code that the host functions of headers contain when ``__CUDA_ARCH__`` is not defined.

nvcc compiles a source twice, but the simulator's compiler compiles it once, as device code. In headers, macros hide
which functions are for a device. So tkjit preprocesses the source both ways, keeping annotations such as
``__device__``, and compares the two texts:

* In a function for the host alone, the host's lines replace the device's.
* In a function for both, the device's lines stay. If they contain inline PTX, which needs a thread of a kernel, a call
  from the host is an error (``require_device``).
* Outside of functions, lines that only the host's text has are added. A constant that differs between the two is
  rejected, because code for both sides uses it.
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
# cuRAND declares these indices for host code; the simulator already declares them for both sides
_INDEX = re.compile(r"\s*extern\s+(?:const\s+)?(?:dim3|uint3)\s+(?:threadIdx|blockIdx|blockDim|gridDim)\s*;\s*$")
_GUARD = " ::tkjit::sim::require_device();"
_RESYNC_LINES = 20_000  # the longest run of lines that one text may have and the other may lack


class Line(NamedTuple):
    """A line of a preprocessed text: its file and line number, and its position in the text."""

    file: str
    number: int
    text: str
    start: int

    @property
    def key(self) -> tuple[str, int, str]:
        return self[:3]


class Body(NamedTuple):
    """A function's body: the position of its opening brace, and the side for which the function is compiled."""

    start: int
    kind: str  # "device", "host" or "both"


def with_host_branches(device: str, host: str) -> str:
    """Replace lines of the device's preprocessed text with the host's lines in functions that only the host runs.

    Annotations stay.

    >>> device = '# 1 "a.cuh"\\nint f() {\\nreturn 1;\\n}\\n__device__ int g() {\\nreturn 1;\\n}'
    >>> host = '# 1 "a.cuh"\\nint f() {\\n\\n\\nreturn 2;\\n}\\n__device__ int g() {\\n\\n\\nreturn 2;\\n}'
    >>> with_host_branches(device.replace("}", '# 5 "a.cuh"\\n}', 1), host).replace("\\n", "|")
    '# 1 "a.cuh"|int f() {|# 4 "a.cuh"|return 2;|# 5 "a.cuh"|}|__device__ int g() {|return 1;|}'
    """
    edits = []
    guarded: set[int] = set()
    scopes = _Scopes(device)
    for device_lines, host_lines, following in _differences(_lines(device), _lines(host)):
        body = scopes.body_at(device_lines[0].start if device_lines else following.start)
        if body is None:
            edits += _outside(device_lines, host_lines, following)
        elif body.kind == "host":
            edits.append(_replaced(device_lines, host_lines, following))
        elif (
            body.kind == "both"
            and body.start not in guarded
            and any(STATEMENT.search(line.text) for line in device_lines)
        ):
            guarded.add(body.start)
            edits.append(Edit(body.start + 1, body.start + 1, _GUARD))
    return apply_edits(device, edits)


def _outside(own: list[Line], others: list[Line], following: Line) -> list[Edit]:
    """Return the edits for a difference outside of functions."""
    if not own:
        return [_replaced(own, [line for line in others if not _INDEX.match(line.text)], following)]
    constant = next((line for line in own if _CONSTANT.match(line.text)), None)
    if constant is None or not any(_CONSTANT.match(line.text) for line in others):
        return []
    refusal = f'static_assert(false, "{REFUSAL} host code has another value of this constant"); '
    return [Edit(constant.start, constant.start, refusal)]


def without_annotations(text: str) -> str:
    """Remove ``__global__``, ``__device__`` and ``__host__``, which a host compiler does not know."""
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
    """Yield each difference as (the device's lines, the host's lines, the device's next line after them)."""
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
    """Finds the functions of a text. The positions of successive queries must not decrease."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._braces = _BRACE.finditer(text)
        self._next = next(self._braces, None)
        self._open: list[tuple[int, str]] = []  # the open braces, with the text before each
        self._begun = 0  # the position after the last brace or semicolon

    def body_at(self, place: int) -> Body | None:
        """Return the body of the outermost function around a position, or None outside of functions."""
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
        within = any("__device__" in head for _, head in functions[1:])  # a device lambda in a host function
        return Body(functions[0][0], "device" if within else _kind(functions[0][1]))


def _is_function(head: str) -> bool:
    without_marks = re.sub(r"^#.*$", "", head, flags=re.MULTILINE).rstrip()
    return _END_OF_HEAD.search(without_marks) is not None


def _kind(head: str) -> str:
    words = set(re.findall(r"\w+", head))
    if not words & {"__global__", "__device__"}:
        return "both" if words & {"constexpr", "consteval"} else "host"  # as with --expt-relaxed-constexpr
    return "both" if "__host__" in words else "device"
