"""The interface for users: kernels, the decorator that makes one, ``load``, and ``make_globals``."""

from tkjit.kernel.decorator import kernel
from tkjit.kernel.find import find, find_used, kernels
from tkjit.kernel.inspect import GlobalLayout, Globals, ParallelGlobalLayout, make_globals
from tkjit.kernel.kernel import Kernel, load

__all__ = [
    "GlobalLayout",
    "Globals",
    "Kernel",
    "ParallelGlobalLayout",
    "find",
    "find_used",
    "kernel",
    "kernels",
    "load",
    "make_globals",
]
