"""Makes Python functions from CUDA kernels and Python descriptions of their parameters.

The import is light: torch, the cache's directories and environment variables are used only later.
"""

from typing import TYPE_CHECKING

from tkjit.benchmark import bench, tune
from tkjit.bindings import batch, bind, char_ptr, move, ptr
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
from tkjit.kernel import Kernel, find, kernel, kernels, load, make_globals, method, warming
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

if TYPE_CHECKING:
    from tkjit import testing as testing
else:

    def __getattr__(name: str) -> object:
        """Import on demand the names that ``import tkjit`` does not load: ``testing``, and the hooks of IPython."""
        from importlib import import_module

        if name == "testing":
            return import_module("tkjit.testing")
        if name in ("load_ipython_extension", "unload_ipython_extension"):
            return getattr(import_module("tkjit.notebook"), name)
        raise AttributeError(f"module 'tkjit' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return __all__
