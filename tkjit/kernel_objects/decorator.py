"""``tkjit.kernel``: the decorator that turns a function into a kernel."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tkjit.errors import SpecError, TkjitError
from tkjit.kernel_objects.loading import Kernel
from tkjit.spec import Options, spec_of_function

if TYPE_CHECKING:
    from typing_extensions import Unpack


def kernel(source: str | Path | None = None, **options: Unpack[Options]) -> Callable[[Callable[..., Any]], Kernel]:
    """Turn a function into a kernel.

    The kernel takes its name, parameters, defaults, docstring and reference from the function.

    ``docs/reference/specs.md`` explains the options with examples.

    Parameters
    ----------
    source : str or Path, optional
        A file, relative to the directory of the file that defines the function, or the source text itself.
    entry : str
        The ``__global__`` function with its template arguments: ``"axpy<T>"``.
    grid, block : str, int, tuple or CExpr
        Up to three expressions over dims and integer parameters: ``"cdiv(N, 256)"``. Not needed for a host function, or
        if the source's ``struct=`` or ``config=`` provides them.
    shared_memory : str, int or CExpr, optional
        The dynamic shared memory of a block, in bytes.
    cluster : int or tuple of int, optional
        The number of blocks per cluster along each axis, up to 16 in total.
    pdl : bool
        Use programmatic dependent launch: the kernel may start before the previous kernel in the stream has finished.
    config : str, optional
        The source's struct of launch constants, for an entry that is a ``__device__`` function. It has ``NUM_THREADS``,
        and optionally ``NUM_BLOCKS``, ``DYNAMIC_SHARED_MEMORY``, ``CLUSTER_SIZE``, ``MIN_BLOCKS_PER_SM``, ``USE_PDL``.
    variants : dict, optional
        Template parameters and their options:
        ``{"T": ("float32", "bfloat16"), "D": (64, 128), "causal": (False, True)}``. Each combination is compiled when
        a call first needs it.
    dims : dict, optional
        Dims computed from other dims: ``{"P": "cdiv(N, 2)"}``.
    computed : dict, optional
        Integer members of the struct, or arguments of the entry, that tkjit computes: ``{"n": "N"}``.
    trailing : str, optional
        Parameters or computed integers that the entry takes as separate arguments after the struct: ``"n"``.
    constraints : str or list of str, optional
        Conditions that every call must meet: ``"K % 8 == 0"``.
    tune : dict, optional
        Compile-time constants of the source that ``tkjit.tune`` chooses, with their options, the default first:
        ``{"STAGES": (4, 3, 5), "TILE_N": (256, 128)}``. The grid, block and shared memory may use them. A constraint
        that uses one is a condition on configurations: ``"STAGES * TILE_N <= 1024"``.
    fields : str, optional
        The order of the struct's fields, if it differs from the order of the parameters: ``"c a b"``. A parameter that
        chooses a variant may be omitted; it is then only a template argument.
    struct : str, optional
        The source's own globals struct, or ``"auto"`` for the type of the entry's first parameter. By default tkjit
        renders a struct named ``Globals``.
    args : bool
        Set this if the kernel takes plain arguments instead of a struct.
    host : bool
        Set this if the entry is a host function, which does its own launches. If it takes torch's tensors, it needs
        ``schema=`` or ``schema_from=``, or parameters without annotations (``docs/howto/torch-sources.md``).
    schema : str, optional
        The schema of a host function, in PyTorch's syntax: ``"norm(Tensor! out, Tensor x, float eps) -> ()"``.
    schema_from : str or Path, optional
        A file that registers a schema for the entry: ``"torch_bindings.cpp"``.
    num_devices : int
        The number of devices that a kernel over several devices requires; 0 for any number.
    archs : dict, optional
        A source for each architecture: ``{"90a": "gemm_sm90.cu"}``.
    cpu : str or Path, optional
        A separate source for the CPU, for kernels that are too slow in the simulator.
    headers : str, HeaderLibrary or list, optional
        The header libraries that the source uses: ``"thunderkittens"``, ``"torch"``. Not needed for a library that
        the source's path names, such as ``"<thunderkittens>/..."``.
    flags, defines, include_dirs, libraries, std
        Options for the compiler; all of them are part of the cache key.
    cooperative : bool
        Run all blocks concurrently, so that they can wait for each other: ``cooperative_groups::this_grid().sync()``.
    symbols : str
        Variables of the source that ``Kernel.symbol`` can return as tensors: ``"counter, mine::table"``.
    compiler : {"nvcc", "nvrtc"}, optional
        The compiler for GPUs. The default is NVRTC if it is installed and the source is only device code, else nvcc.
    backward : callable, Kernel or str, optional
        The function that computes the gradients, or a kernel that does, or its name if ``load`` finds it. Its
        parameters are matched by name: fields of the call, ``grad_NAME`` for the contiguous gradient of an output, and
        ``needed`` for the names of the inputs whose gradients are requested. A function returns the gradients of the
        floating-point inputs in order, with None for those that are not needed. A kernel's outputs are named
        ``grad_NAME``.
    deprecated : str, optional
        The replacement that calls of this overload recommend in a warning: ``"pass beta= by name"``.
    autocast : {"lower", "float32"}, optional
        Under ``torch.autocast``, cast floating-point inputs to autocast's dtype (``"lower"``) or to float32,
        as PyTorch's own operators do. By default inputs are not cast.
    examples : dict or list of dict, optional
        Calls for ``verify`` and ``check``; by default, tkjit generates sizes from dims and constraints.
        Each has extents, numbers and variants by name: ``{"M": 256, "N": 384, "causal": True}``.
    zeroed : str, optional
        Inputs that start as zeros in ``verify`` and ``check``: ``"signals"``.
    prepare : callable, optional
        Takes the arguments that ``verify`` and ``check`` generated, as a dict by name. It changes them in place, or
        returns replacements for some of them: ``{"weight": weight / 16}``.
    tolerance : float, optional
        In ``verify``, the largest allowed error in a row of a result, relative to that row. The default depends on the
        dtypes.
    unchecked : str, optional
        In-place parameters that ``verify`` and ``check`` do not compare, such as counters for the next launch.
    flops : str or int, optional
        The floating-point operations of a call, for ``bench``: ``"2 * M * N * K"``. Without it, ``bench`` gives the
        speed in bytes per second.
    sizes : dict or list of dict, optional
        The calls that ``bench`` measures, in the form of ``examples``.
    peers : dict, optional
        Functions that ``bench`` compares the kernel with, by name. Their parameters are fields of the kernel. A peer
        that raises an ImportError counts as not installed. The default is the reference.

    Raises
    ------
    SpecError
        If an option is unknown or missing, an annotation cannot be read, or the parts contradict each other.

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
        raise SpecError("@tkjit.kernel needs arguments: write @tkjit.kernel(source, entry=..., grid=..., block=...)")

    def make(function: Callable[..., Any]) -> Kernel:
        try:
            return _kernel_of(function, source, options)
        except TkjitError as error:  # the spec's author made a mistake, so stack frames inside tkjit would not help
            raise error.with_traceback(None) from error.__cause__

    return make


def _kernel_of(function: Callable[..., Any], source: str | Path | None, options: Options) -> Kernel:
    if options.get("host") and _is_for_torch(function, options):
        from tkjit.kernel_objects.host import HostKernel

        return HostKernel(function, source, options)
    return Kernel(spec_of_function(function, source, **options))


def _is_for_torch(function: Callable[..., Any], options: Options) -> bool:
    """Return whether a host function takes torch's tensors: it has a schema, or its parameters have no annotations."""
    parameters = inspect.signature(function).parameters.values()
    has_schema = "schema" in options or "schema_from" in options
    return has_schema or all(parameter.annotation is parameter.empty for parameter in parameters)
