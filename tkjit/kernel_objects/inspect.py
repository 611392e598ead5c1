"""``make_globals``: returns the values that a call would pass to its kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

from tkjit.errors import SpecError
from tkjit.kernel_objects.loading import Kernel, load
from tkjit.kernel_objects.prepared import PreparedLaunch
from tkjit.spec import DTYPES, Field


class GlobalLayout(NamedTuple):
    """A global layout in a launch's arguments.

    Parameters
    ----------
    data_ptr : int
    extents : tuple of int
        Batch, depth, rows, cols.
    dtype : str
        The dtype's name in torch.
    """

    data_ptr: int
    extents: tuple[int, int, int, int]
    dtype: str


class StridedLayout(NamedTuple):
    """A strided layout in a launch's arguments.

    Parameters
    ----------
    data_ptr : int
    extents, strides : tuple of int
        One for each dim, leftmost first; strides are in elements.
    dtype : str
        The dtype's name in torch.
    """

    data_ptr: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str


class ParallelGlobalLayout(NamedTuple):
    """A parallel global layout in a launch's arguments.

    Parameters
    ----------
    data_ptrs : tuple of int
        One pointer for each device.
    extents : tuple of int
        Batch, depth, rows, cols.
    dtype : str
        The dtype's name in torch.
    dev_idx : int
        The index of the launch's device.
    multicast_ptr : int
        0 without multicast.
    """

    data_ptrs: tuple[int, ...]
    extents: tuple[int, int, int, int]
    dtype: str
    dev_idx: int
    multicast_ptr: int = 0


class Globals(dict[str, Any]):
    """The fields of one launch by name. This object keeps alive the tensors that its fields use.

    Parameters
    ----------
    result : object
        The value that the call would return; its outputs are allocated but not written.
    """

    def __init__(self, fields: dict[str, Any], result: Any, held: Any) -> None:
        super().__init__(fields)
        self.result = result
        self._held = held


def make_globals(kernel: Kernel | PreparedLaunch | str, *args: Any, **kwargs: Any) -> list[Globals]:
    """Return what a call would pass to its kernel. The call is parsed, checked and allocated, but not launched.

    This compiles only the kernel's glue.

    Parameters
    ----------
    kernel : Kernel, str or PreparedLaunch
        The kernel, its name, or a prepared launch. For a prepared launch, pass no arguments.
    args, kwargs
        The arguments of the call.

    Returns
    -------
    list of Globals
        One item per launch. A kernel over several devices has a launch for each device.

    Examples
    --------
    >>> import torch, tkjit
    >>> x, y = torch.ones(2, 3), torch.ones(6)
    >>> (found,) = tkjit.make_globals("axpy", y, torch.zeros(6), alpha=0.5)
    >>> found["x"].extents, found["x"].dtype, found["x"].data_ptr == y.data_ptr(), found["alpha"]
    ((1, 1, 1, 6), 'float32', True, 0.5)
    """
    loaded: Any
    if not isinstance(kernel, (Kernel, str)):
        if type(kernel).__name__ != "PreparedLaunch":
            raise SpecError(f"{kernel!r} is not a kernel; expected a name, a tkjit.Kernel or the result of prepare()")
        loaded = kernel.kernel
        overload, result, steps, scratch = loaded._show_prepared(kernel, *args, **kwargs)
    else:
        loaded = load(kernel)
        overload, result, steps, scratch = loaded._collect(*args, **kwargs)
    fields = loaded.specs[overload].struct_fields
    return [
        Globals(
            {f.name: _shown(f, *argument) for f, argument in zip(fields, step, strict=True)},
            result,
            (args, kwargs, scratch),
        )
        for step in steps
    ]


def _shown(
    field: Field,
    integer: int,
    real: float,
    extents: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: int,
    present: int,
    pointers: tuple[int, ...] | None,
    multicast: int,
    dev_idx: int,
) -> Any:
    """Convert a field to a readable value, or None if the argument is absent."""
    if not present:
        return None
    if pointers is not None:
        return ParallelGlobalLayout(pointers, _padded(extents), DTYPES[dtype].name, dev_idx, multicast)
    if field.is_strided:
        return StridedLayout(integer, extents, strides, DTYPES[dtype].name)
    if field.is_tensor and not field.is_list:
        return GlobalLayout(integer, _padded(extents), DTYPES[dtype].name)
    if field.draws is not None:
        return f"philox of seed {integer}"
    if field.is_list or field.value_type is not None:
        return f"{field.dtype} at {integer:#x}"
    if field.dtype in ("float", "double"):
        return real
    signed = integer - (1 << 64) if integer >= 1 << 63 else integer
    return bool(signed) if field.dtype == "bool" else signed


def _padded(extents: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Pad extents to the four axes of a global layout."""
    batch, depth, rows, cols = (*(1,) * (4 - len(extents)), *extents)
    return batch, depth, rows, cols
