"""The user API: ``Kernel``, the kernel decorator, ``load``, ``method``, ``make_globals`` and ``warming``."""

from tkjit.kernel_objects.decorator import kernel
from tkjit.kernel_objects.find import find, find_used, kernels, kernels_named
from tkjit.kernel_objects.inspect import GlobalLayout, Globals, ParallelGlobalLayout, StridedLayout, make_globals
from tkjit.kernel_objects.loading import Kernel, load
from tkjit.kernel_objects.method import method
from tkjit.kernel_objects.prebuild import warming
from tkjit.kernel_objects.prepared import PreparedLaunch

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
