"""Splits a launcher's text between two compilers: NVRTC for device code, and the C++ compiler for host code."""

from __future__ import annotations

from tkjit.render.globals import members
from tkjit.render.text import wrap
from tkjit.spec import CExpr, Spec

DEVICE_CODE = "device_code.inc"  # generated; describes the device code to the host code
MARKS_BEFORE_SOURCE = 3  # lines


def why_not_in_halves(spec: Spec) -> str:
    """Why a launcher's host code cannot be compiled without the kernel's source; empty if it can.

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
    """A launcher's text, marked for the two compilers.

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
    """The check that the two compilers agree on the struct's layout."""
    if spec.args:
        return [""]
    offsets = [f"offsetof(Globals, {name})" for name in members(spec)]
    return ["", *wrap("TKJIT_SAME_LAYOUT(", ["sizeof(Globals)", "alignof(Globals)", *offsets], ")"), ""]
