"""The user API: ``Kernel``, the kernel decorator, ``load``, ``method``, ``make_globals`` and ``warming``."""

from tkjit.kernel.decorator import kernel
from tkjit.kernel.find import find, find_used, kernels, kernels_named
from tkjit.kernel.inspect import GlobalLayout, Globals, ParallelGlobalLayout, StridedLayout, make_globals
from tkjit.kernel.kernel import Kernel, load
from tkjit.kernel.method import method
from tkjit.kernel.prebuild import warming
from tkjit.kernel.prepared import PreparedLaunch

__all__ = [
    "GlobalLayout",
    "Globals",
    "Kernel",
    "ParallelGlobalLayout",
    "PreparedLaunch",
    "StridedLayout",
    "find",
    "find_used",
    "kernel",
    "kernels",
    "kernels_named",
    "load",
    "make_globals",
    "method",
    "warming",
]
