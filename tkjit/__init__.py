"""Makes Python functions from CUDA kernels and Python descriptions of their parameters.

The import is light: each public name is imported from its module when it is first used. Torch, the cache's directories
and environment variables are used only later.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tkjit.benchmark import bench, tune
    from tkjit.bindings import bind, char_ptr, move, ptr
    from tkjit.bindings.batch import batch
    from tkjit.errors import (
        ArgumentError,
        CacheError,
        CompileError,
        CppError,
        LaunchError,
        ShapeError,
        SpecError,
        TkjitError,
        TkjitWarning,
        ToolchainError,
    )
    from tkjit.exports import export
    from tkjit.kernel_objects import Kernel, load, make_globals, warming
    from tkjit.kernel_objects.decorator import kernel
    from tkjit.kernel_objects.find import find, kernels
    from tkjit.kernel_objects.method import method
    from tkjit.parallel import Club, ParallelTensor, enable_peer_access
    from tkjit.recorded_run import require
    from tkjit.spec import (
        Align,
        CExpr,
        Constant,
        CType,
        Fill,
        Generator,
        HeaderLibrary,
        In,
        InOut,
        MaxLength,
        Member,
        Out,
        Scalar,
        Scratch,
        Spec,
        Strided,
        Struct,
        Tensor,
        Zero,
    )
    from tkjit.spec.annotations import DType

__version__ = "0.1.0"

__all__ = [
    "Align",
    "ArgumentError",
    "CExpr",
    "CType",
    "CacheError",
    "Club",
    "CompileError",
    "Constant",
    "CppError",
    "DType",
    "Fill",
    "Generator",
    "HeaderLibrary",
    "In",
    "InOut",
    "Kernel",
    "LaunchError",
    "MaxLength",
    "Member",
    "Out",
    "ParallelTensor",
    "Scalar",
    "Scratch",
    "ShapeError",
    "Spec",
    "SpecError",
    "Strided",
    "Struct",
    "Tensor",
    "TkjitError",
    "TkjitWarning",
    "ToolchainError",
    "Zero",
    "batch",
    "bench",
    "bind",
    "char_ptr",
    "enable_peer_access",
    "export",
    "find",
    "kernel",
    "kernels",
    "load",
    "make_globals",
    "method",
    "move",
    "ptr",
    "require",
    "tune",
    "warming",
]

# the names above, by the modules from which they are imported on demand
_MODULES = {
    "benchmark": ("bench", "tune"),
    "bindings": ("bind", "char_ptr", "move", "ptr"),
    "bindings.batch": ("batch",),
    "errors": (
        "ArgumentError",
        "CacheError",
        "CompileError",
        "CppError",
        "LaunchError",
        "ShapeError",
        "SpecError",
        "TkjitError",
        "TkjitWarning",
        "ToolchainError",
    ),
    "exports": ("export",),
    "kernel_objects": ("Kernel", "load", "make_globals", "warming"),
    "kernel_objects.decorator": ("kernel",),
    "kernel_objects.find": ("find", "kernels"),
    "kernel_objects.method": ("method",),
    "parallel": ("Club", "ParallelTensor", "enable_peer_access"),
    "recorded_run": ("require",),
    "spec": (
        "Align",
        "CExpr",
        "Constant",
        "CType",
        "Fill",
        "Generator",
        "HeaderLibrary",
        "In",
        "InOut",
        "MaxLength",
        "Member",
        "Out",
        "Scalar",
        "Scratch",
        "Spec",
        "Strided",
        "Struct",
        "Tensor",
        "Zero",
    ),
    "spec.annotations": ("DType",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

if TYPE_CHECKING:
    from tkjit import errors as errors
    from tkjit import testing as testing
else:

    def __getattr__(name: str) -> object:
        """Import a public name, or one of the modules ``errors`` and ``testing``, when it is first used (PEP 562)."""
        if name in ("errors", "testing"):
            return import_module(f"tkjit.{name}")
        if name in ("load_ipython_extension", "unload_ipython_extension"):
            return getattr(import_module("tkjit.notebook"), name)
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'tkjit' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"tkjit.{_MODULE_OF[name]}"), name)
        return value

    def __dir__() -> list[str]:
        return __all__
