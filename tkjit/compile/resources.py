"""Reads each kernel's use of the hardware from ptxas's report, and finds the launcher's entry among the kernels."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

# what ptxas calls spills, and what a person does
SPILLS = {"spill_store_bytes": "stores", "spill_load_bytes": "loads"}

Figures = dict[str, int]
_SECTION = re.compile(r"^ptxas info\s*: Compiling entry function '([^']+)'", re.MULTILINE)
# the symbol of TKJIT_MARK_ENTRY (tkjit/launch.h), whose template argument is the entry
_MARKER = re.compile(rb"(?<![\w$.])_ZN5tkjit12entry_markerI[\w$.]+")
# what a launcher in halves says (loader/device_code.py)
_NAMED = re.compile(rb"\0tkjit_entry=([\w$.]+)\0")


@dataclass(frozen=True)
class KernelResources:
    """The resources of a build's kernels: registers a thread, bytes of spills, bytes of static shared memory.

    Parameters
    ----------
    entry : dict or None
        Those of the kernel that the launcher launches. None where that is unknown: a host function may launch each.
    others : dict
        Those of every other kernel in the file, by its demangled name.
    """

    entry: Figures | None = None
    others: dict[str, Figures] = field(default_factory=dict)

    @property
    def facts(self) -> dict[str, object]:
        """What a manifest says of them."""
        return {**(self.entry or {}), **({"other_kernels": self.others} if self.others else {})}

    def spills(self) -> Iterator[str]:
        """The spills of the entry, or of every kernel where the entry is unknown, in words."""
        spilling = {"": self.entry} if self.entry is not None else self.others
        for name, figures in spilling.items():
            for key, words in SPILLS.items():
                if figures.get(key):
                    yield f"{figures[key]} bytes of {words}" + (f" in {name}" if name else "")


def resources_text(figures: Mapping[str, Any]) -> str:
    """``32 registers, 0 B spilled, 1024 B shared memory``, or nothing where no figures are known."""
    if "registers" not in figures:
        return ""
    spilled = sum(figures.get(name, 0) for name in SPILLS)
    shared = figures.get("shared_memory_bytes", 0)
    return f"{figures['registers']} registers, {spilled} B spilled, {shared} B shared memory"


def kernel_resources(log: str, shared_object: bytes) -> KernelResources:
    """Tell the entry's resources from those of the other kernels in its file.

    Parameters
    ----------
    log : str
        What nvcc printed, with ``-Xptxas -v``.
    shared_object : bytes
        The launcher, in which a symbol names the entry.
    """
    kernels = {_demangle(symbol): figures for symbol, figures in _read_figures(log)}
    if not kernels:  # of 100 MB of precompiled headers the search below would take a second
        return KernelResources()
    own = list(kernels) if len(kernels) == 1 else _named_by(shared_object, kernels)
    if len(own) != 1:
        return KernelResources(None, kernels)
    return KernelResources(kernels.pop(own[0]), kernels)


def _read_figures(log: str) -> Iterator[tuple[str, Figures]]:
    """Each kernel's mangled name and its figures."""
    _, *parts = _SECTION.split(log)
    for symbol, text in zip(parts[::2], parts[1::2], strict=True):
        figures = {}
        # the functions that it calls are reported behind it; what they spill, it spills
        for name, words in SPILLS.items():
            figures[name] = sum(int(value) for value in re.findall(rf"(\d+) bytes spill {words}", text))
        for name, pattern in {"registers": r"Used (\d+) registers", "shared_memory_bytes": r"(\d+) bytes smem"}.items():
            figures[name] = max((int(value) for value in re.findall(pattern, text)), default=0)
        yield symbol, figures


def _named_by(shared_object: bytes, kernels: dict[str, Figures]) -> list[str]:
    """The kernels that the launcher's marker names: ``tkjit::entry_marker<&(void axpy<float>(Globals))>``."""
    if named := _NAMED.search(shared_object):
        return [kernel for kernel in kernels if kernel == _demangle(named[1].decode())]
    markers = {_demangle(symbol.decode()) for symbol in _MARKER.findall(shared_object)}
    names = {re.sub(r"^tkjit::entry_marker<&\(?|\)?>$", "", marker) for marker in markers}
    # without its parameters where it is no template and lies in a namespace
    return [kernel for kernel in kernels if any(kernel == name or kernel.startswith(f"{name}(") for name in names)]


@cache
def _demangler() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libstdc++.so.6")  # torch's own needs it
    except OSError:
        return None
    library.__cxa_demangle.restype = ctypes.c_void_p
    library.__cxa_demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    library.free.argtypes = [ctypes.c_void_p]
    return library


def _demangle(symbol: str) -> str:
    """A symbol as C++ spells it, or as it is where it is none."""
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
