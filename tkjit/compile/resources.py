"""Reads the resources of each kernel from ptxas's report, and finds the launcher's entry among the kernels."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

# Maps the names of our figures for spills to the words in ptxas's report.
_SPILLS = {"spill_store_bytes": "stores", "spill_load_bytes": "loads"}
# Maps the names of other figures to their patterns. The stack holds spills, and arrays that are not in registers.
_FIGURES = {
    "registers": r"Used (\d+) registers",
    "shared_memory_bytes": r"(\d+) bytes smem",
    "stack_bytes": r"(\d+) bytes stack frame",
}

Figures = dict[str, int]
_SECTION = re.compile(r"^ptxas info\s*: Compiling entry function '([^']+)'", re.MULTILINE)
# Matches ptxas's warning that wgmmas wait for one another, because other instructions use their sums.
_SERIALIZED = re.compile(r"wgmma\.mma_async instructions are serialized\b.*? function '([^']+)'")
# Matches the symbol that TKJIT_MARK_ENTRY (tkjit/launch.h) defines, whose template argument is the entry.
_MARKER = re.compile(rb"(?<![\w$.])_ZN5tkjit12entry_markerI[\w$.]+")
# Matches the entry's name in a launch program (loader/device_code.py).
_NAMED = re.compile(rb'"symbol": "([\w$.]+)"')


@dataclass(frozen=True)
class KernelResources:
    """The resources that a build's kernels use: registers per thread; bytes of spills, stack and static shared memory.

    ``serialized_wgmma`` is 1 if ptxas warns that the kernel's wgmmas do not overlap.

    Parameters
    ----------
    entry : dict or None
        The resources of the kernel that the launcher launches. None if that kernel is unknown, for example because a
        host function may launch any kernel of the file.
    others : dict
        Maps the demangled name of every other kernel in the file to its resources.
    """

    entry: Figures | None = None
    others: dict[str, Figures] = field(default_factory=dict)

    @property
    def facts(self) -> dict[str, object]:
        """The resources in the form in which a manifest contains them."""
        return {**(self.entry or {}), **({"other_kernels": self.others} if self.others else {})}


def resources_text(figures: Mapping[str, Any]) -> str:
    """Format figures: ``32 registers, 0 B spilled, 1024 B static shared memory``; empty if the figures are unknown."""
    if "registers" not in figures:
        return ""
    spilled = sum(figures.get(name, 0) for name in _SPILLS)
    shared = figures.get("shared_memory_bytes", 0)
    stack = f", {figures['stack_bytes']} B stack" if figures.get("stack_bytes") and not spilled else ""
    warning = ", wgmma serialized" if figures.get("serialized_wgmma") else ""
    return f"{figures['registers']} registers, {spilled} B spilled, {shared} B static shared memory{stack}{warning}"


def kernel_resources(log: str, shared_object: bytes) -> KernelResources:
    """Read all kernels' resources, and separate the entry's resources from those of the other kernels in its file.

    Parameters
    ----------
    log : str
        The output of nvcc with ``-Xptxas -v``.
    shared_object : bytes
        The launcher, in which a symbol names the entry.
    """
    kernels = {demangle(symbol): figures for symbol, figures in _read_figures(log)}
    if not kernels:  # a precompiled header has no kernels, and searching its 100 MB below would take a second
        return KernelResources()
    own = list(kernels) if len(kernels) == 1 else named_by(shared_object, kernels)
    if len(own) != 1:
        return KernelResources(None, kernels)
    return KernelResources(kernels.pop(own[0]), kernels)


def _read_figures(log: str) -> Iterator[tuple[str, Figures]]:
    """Yield each kernel's mangled name and its figures."""
    _, *parts = _SECTION.split(log)
    serialized = set(_SERIALIZED.findall(log))
    for symbol, text in zip(parts[::2], parts[1::2], strict=True):
        figures = {}
        # after a kernel, ptxas reports the functions that it calls, and their spills are counted for the kernel
        for name, words in _SPILLS.items():
            figures[name] = sum(int(value) for value in re.findall(rf"(\d+) bytes spill {words}", text))
        for name, pattern in _FIGURES.items():
            figures[name] = max((int(value) for value in re.findall(pattern, text)), default=0)
        if symbol in serialized:
            figures["serialized_wgmma"] = 1
        yield symbol, figures


def named_by(shared_object: bytes, kernels: Iterable[str]) -> list[str]:
    """Return the kernels that the launcher's marker names: ``tkjit::entry_marker<&(void axpy<float>(Globals))>``."""
    if named := _NAMED.search(shared_object):
        return [kernel for kernel in kernels if kernel == demangle(named[1].decode())]
    markers = {demangle(symbol.decode()) for symbol in _MARKER.findall(shared_object)}
    names = {re.sub(r"^tkjit::entry_marker<&\(?|\)?>$", "", marker) for marker in markers}
    # the name lacks the parameters if the kernel is in a namespace and is not a template
    return [kernel for kernel in kernels if any(kernel == name or kernel.startswith(f"{name}(") for name in names)]


@cache
def _demangler() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libstdc++.so.6")  # torch needs this library, so it is installed
    except OSError:
        return None
    library.__cxa_demangle.restype = ctypes.c_void_p
    library.__cxa_demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    library.free.argtypes = [ctypes.c_void_p]
    return library


def demangle(symbol: str) -> str:
    """Return a symbol's C++ name, or the symbol itself if it is not a C++ symbol."""
    library, status = _demangler(), ctypes.c_int()
    if library is None:
        return symbol
    text = library.__cxa_demangle(symbol.encode(), None, None, ctypes.byref(status))
    if not text:
        return symbol
    try:
        return ctypes.string_at(text).decode()
    finally:
        library.free(text)
