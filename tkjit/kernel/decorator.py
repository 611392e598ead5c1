"""The decorator that makes a kernel from a function."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tkjit.errors import SpecError, TkjitError
from tkjit.kernel.annotation_hook import AnnotationHook
from tkjit.kernel.kernel import Kernel
from tkjit.spec import Options, spec_of_function

if TYPE_CHECKING:
    from typing_extensions import Unpack


def kernel(source: str | Path | None = None, **options: Unpack[Options]) -> Callable[[Callable[..., Any]], Kernel]:
    """Make a kernel of a function, whose signature, docstring and body are the kernel's.

    Parameters
    ----------
    source : str or Path, optional
        A file beside the one that defines the function, or the source text itself.
    entry : str
        The ``__global__`` function: ``"axpy<T>"``.
    grid, block : str, int, tuple or CExpr
        Up to three expressions over dims and integers; a described struct may have its own ``grid()`` and ``block()``.
    shared_memory : str, int or CExpr, optional
        Dynamic shared memory, in bytes.
    cluster : int or tuple of int, optional
        Blocks of a cluster, by axis.
    pdl : bool
        A launch may begin before the one before it in the stream has ended (programmatic dependent launch).
    config : str, optional
        The source's struct of launch constants, for an entry that is a ``__device__`` function: ``NUM_THREADS``,
        ``NUM_BLOCKS``, ``DYNAMIC_SHARED_MEMORY``, ``CLUSTER_SIZE``, ``MIN_BLOCKS_PER_SM``, ``USE_PDL``.
    variants : dict, optional
        Template parameters: ``{"T": ("float32", "bfloat16"), "D": (64, 128), "causal": (False, True)}``.
    dims : dict, optional
        Dims computed from others: ``{"P": "cdiv(N, 2)"}``.
    computed : dict, optional
        Integers that the struct, or the entry, takes and no call gives: ``{"n": "N"}``.
    behind : str, optional
        Parameters, or computed integers, that the entry takes as arguments of its own behind the struct.
    constraints : str or list of str, optional
        What must hold of a call: ``"K % 8 == 0"``.
    fields : str, optional
        The struct's order of fields, where it is not the parameters'. A parameter that is a variant may be missing.
    struct : str, optional
        The source's own globals struct, or ``"auto"`` for the type of the entry's first parameter; without it one is
        rendered under the name ``Globals``.
    args : bool
        The kernel takes plain arguments instead of a struct.
    host : bool
        The entry is a host function: it is called, and launches by itself. One for torch's tensors has a schema, or its
        parameters here have no annotations (docs/torch-sources.md).
    schema : str, optional
        What a host function takes, as PyTorch writes it: ``"norm(Tensor! out, Tensor x, float eps) -> ()"``.
    schema_from : str or Path, optional
        A file that registers such a schema for the entry: ``"torch_bindings.cpp"``.
    num_devices : int
        Of a kernel over several devices: how many there must be; 0 for any number.
    archs : dict, optional
        Sources by architecture: ``{"90a": "gemm_sm90.cu"}``.
    cpu : str or Path, optional
        A source of its own for the CPU, where the simulator is too slow.
    headers : str, HeaderLibrary or list, optional
        What the source is written on: ``"thunderkittens"``, ``"torch"``. A source ``"<thunderkittens>/..."`` names it
        itself.
    flags, defines, include_dirs, libraries, std
        For the compiler; all are part of the key.
    cooperative : bool
        All blocks run at once, and may wait for each other: ``cooperative_groups::this_grid().sync()``.
    symbols : str
        Variables of the source that ``Kernel.symbol`` returns as tensors: ``"counter, mine::table"``.
    forbid_spills : bool
        Refuse a build for a GPU that spills registers to local memory.
    compiler : {"nvcc", "nvrtc"}, optional
        What compiles it for GPUs, where that should not be found from the source.
    backward : str or callable, optional
        What computes the gradients: a function, or a kernel by its name. It takes by the names of its parameters:
        fields of the call, ``grad_NAME`` for each output's gradient (contiguous), and ``needed``, the names of the
        inputs whose gradient is asked for. A function returns the gradients of the floating-point inputs in their
        order, None for one that is not needed; a kernel's outputs are ``grad_NAME``.
    deprecated : str, optional
        What to use instead: ``"pass beta= by name"``. A call of this overload warns.
    autocast : {"lower", "float32"}, optional
        Under ``torch.autocast`` floating-point inputs are cast to its dtype, or to float32, as PyTorch's operators of
        that kind do it; without this they stay as they are.
    examples : dict or list of dict, optional
        Calls of ``verify`` and ``check`` instead of sizes made up from dims and constraints: extents, numbers and
        variants by name, ``{"M": 256, "N": 384, "causal": True}``.
    zeroed : str, optional
        Inputs that are zeros in ``verify`` and ``check``: ``"signals"``.
    prepare : callable, optional
        Takes the arguments that ``verify`` and ``check`` have made up, by name. It changes them in place, or returns
        those that have to be others: ``{"weight": weight / 16}``.
    tolerance : float, optional
        The largest error of a result's row in ``verify``, as a part of the row, where that of its dtypes is too small.
    unchecked : str, optional
        In-place parameters that are not compared by ``verify`` and ``check``, such as counts for the next launch.

    Raises
    ------
    SpecError
        If the parts contradict each other.

    Examples
    --------
    >>> import tkjit
    >>> from tkjit import InOut, Tensor
    >>> @tkjit.kernel(
    ...     "template <class T> __global__ void twice(Globals g) { g.x[threadIdx.x] *= T(2); }",
    ...     entry="twice<T>", grid=1, block="N", variants={"T": ("float32",)},
    ... )
    ... def twice(x: InOut[Tensor, "T", "N"]) -> Tensor: ...
    >>> twice
    <tkjit kernel twice(x: Tensor, *, stream=None)>
    """

    if callable(source):
        raise SpecError("@tkjit.kernel needs brackets: its source, entry= and the launch")
    evaluated = AnnotationHook(sys._getframe(1).f_code)

    def make(function: Callable[..., Any]) -> Kernel:
        evaluated.end()
        try:
            return _kernel_of(function, source, options)
        except TkjitError as error:  # a mistake of the author's, who has no use for the frames below
            raise error.with_traceback(None) from error.__cause__

    return make


def _kernel_of(function: Callable[..., Any], source: str | Path | None, options: Options) -> Kernel:
    if options.get("host") and _is_for_torch(function, options):
        from tkjit.kernel.host import HostKernel

        return HostKernel(function, source, options)
    return Kernel(spec_of_function(function, source, **options))


def _is_for_torch(function: Callable[..., Any], options: Options) -> bool:
    """Whether a host function takes torch's tensors: it has a schema, or nothing here says what it takes."""
    parameters = inspect.signature(function).parameters.values()
    has_schema = "schema" in options or "schema_from" in options
    return has_schema or all(parameter.annotation is parameter.empty for parameter in parameters)
