"""Explains a member that a compiler has not found in what tkjit renders: the struct, or a field of it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tkjit.source.entries import kernel_functions

# g++, clang, nvcc and NVRTC
_NO_MEMBER = re.compile(
    r"(?:\W(?:const )?(?:struct |class )?(?P<owner>[\w:]+)(?:<[^\n]*>)?\W+has no member (?:named )?\W?(?P<name>\w+)"
    r"|no member named \W(?P<named>\w+)\W in \W(?P<of>[\w:]+))"
)
_LAYOUTS = {
    "gl": "a global layout has raw_ptr, batch(), depth(), rows(), cols(), numel(), and elements g.x[i]",
    "strided": "a strided layout has raw_ptr, extent(i), stride(i), numel(), and elements g.x(i, j)",
}


def why_no_member(text: str, entry: str, fields: Sequence[str], log: str) -> str:
    """Which members there are; empty if the compiler's first error is another.

    Parameters
    ----------
    text : str
        The source.
    entry : str
        As the spec has it: ``relu<T>``.
    fields : sequence of str
        The members of the struct that is rendered.
    log : str
        What the compiler has printed.

    Examples
    --------
    >>> source = "__global__ void a(Globals g) {} __global__ void b(Globals g) {}"
    >>> why_no_member(source, "a", ["x", "y"], 'a.cu(2): error: class "Globals" has no member "z"')
    'Globals has the fields x, y. Each kernel has Globals of its own, and the source has b too: give each a file'
    """
    line = next((line for line in log.splitlines() if re.search(r"\berror\b", line)), "")
    if (match := _NO_MEMBER.search(line)) is None:
        return ""
    owner = (match["owner"] or match["of"]).rpartition("::")[2]
    if owner in _LAYOUTS:
        return f"{_LAYOUTS[owner]}; docs/device-api.md describes all of its members"
    if owner != "Globals":
        return ""
    name = entry.partition("<")[0]
    others = [one.name for one in kernel_functions(text) if one.name != name and "Globals" in " ".join(one.parameters)]
    own = f"Globals has the fields {', '.join(fields)}"
    if not others:
        return own
    return f"{own}. Each kernel has Globals of its own, and the source has {', '.join(others)} too: give each a file"
