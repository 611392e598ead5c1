"""Which launchers have a text that two compilers can share: NVRTC for device code, the C++ compiler for host code."""

from __future__ import annotations

from tkjit.render.globals import members
from tkjit.render.text import wrap
from tkjit.spec import CExpr, Spec

DEVICE_CODE = "device_code.inc"  # what the host code is told of the device code, where another compiler made that
MARKS_BEFORE_SOURCE = 3  # lines


def why_not_in_halves(spec: Spec) -> str:
    """What of the source the launcher's host code would need, which only device code has; empty if nothing.

    The answer decides over a launcher's text, so it depends on the spec alone.
    """
    if spec.host:
        return "its entry is a host function"
    if spec.struct:
        return "the struct of its entry is the source's own"
    if spec.config:
        return "it is launched by a struct of constants"
    if spec.headers:
        return f"it is written on {spec.headers[0].name}"
    if any(isinstance(part, CExpr) for _, part in spec.launch.shape):
        return "its launch is computed in C++"
    if spec.constants or spec.symbols:
        return "its host code reads or writes variables of the source"
    if any(f.value_type is not None and f.value_type.members for f in spec.fields):
        return "it takes a struct by value"
    if any(f.fill is not None for f in spec.tensors):
        return "an output is filled before the launch"
    return ""


def in_halves(spec: Spec, before: list[str], source: list[str], entry: list[str]) -> list[str]:
    """A launcher's text, with marks for who compiles what.

    Parameters
    ----------
    before : list of str
        The struct, and all that both compilers read.
    source : list of str
        The kernel's source, and what is said of the kernel.
    entry : list of str
        The launch function.
    """
    marks = ["#ifdef TKJIT_HOST_HALF", f'#include "{DEVICE_CODE}"', "#else"]
    return [*before, *marks, *source, "#endif", *_same_layout(spec), "#ifndef __CUDACC_RTC__", *entry, "#endif"]


def _same_layout(spec: Spec) -> list[str]:
    """Has the two compilers' layouts of the struct compared."""
    if spec.args:
        return [""]
    offsets = [f"offsetof(Globals, {name})" for name in members(spec)]
    return ["", *wrap("TKJIT_SAME_LAYOUT(", ["sizeof(Globals)", "alignof(Globals)", *offsets], ")"), ""]
