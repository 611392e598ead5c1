"""Splits a launcher's text for two compilers: NVRTC compiles the device code, a C++ compiler the host code."""

from __future__ import annotations

from tkjit.render.globals import members
from tkjit.render.text import wrap
from tkjit.spec import CExpr, Spec

DEVICE_CODE = "device_code.inc"  # a generated file that describes the device code to the host code
MARKS_BEFORE_SOURCE = 3  # the number of lines that in_halves inserts before the source


def why_not_in_halves(spec: Spec) -> str:
    """Explain why a launcher's host code cannot be compiled without the kernel's source; return "" if it can.

    The answer affects the launcher's text, so it depends only on the spec.
    """
    if spec.host:
        return "its entry is a host function"
    if spec.struct:
        return "its entry takes a struct that the source defines"
    if spec.config:
        return "it is launched by a struct of constants"
    if spec.headers:
        return f"it uses the headers of {spec.headers[0].name}"
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
    """Return a launcher's text, with preprocessor directives that select the half for each compiler.

    Parameters
    ----------
    before : list of str
        The struct, and everything else that both compilers read.
    source : list of str
        The kernel's source, and the assertions on the kernel.
    entry : list of str
        The launch function.
    """
    marks = ["#ifdef TKJIT_HOST_HALF", f'#include "{DEVICE_CODE}"', "#else"]
    return [*before, *marks, *source, "#endif", *_same_layout(spec), "#ifndef __CUDACC_RTC__", *entry, "#endif"]


def _same_layout(spec: Spec) -> list[str]:
    """Render the check that both compilers use the same layout for the struct."""
    if spec.args:
        return [""]
    offsets = [f"offsetof(Globals, {name})" for name in members(spec)]
    return ["", *wrap("TKJIT_SAME_LAYOUT(", ["sizeof(Globals)", "alignof(Globals)", *offsets], ")"), ""]
