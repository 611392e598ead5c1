"""``make_globals``: shows the values that a call would pass to its kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

from tkjit.errors import SpecError
from tkjit.kernel.kernel import Kernel, load
from tkjit.kernel.prepared import PreparedLaunch
from tkjit.spec import DTYPES, Field


class GlobalLayout(NamedTuple):
    """A global layout as a launch passes it.

    Parameters
    ----------
    data_ptr : int
    extents : tuple of int
        Batch, depth, rows, cols.
    dtype : str
        torch's name.
    """

    data_ptr: int
    extents: tuple[int, int, int, int]
    dtype: str


class StridedLayout(NamedTuple):
    """A strided layout as a launch passes it.

    Parameters
    ----------
    data_ptr : int
    extents, strides : tuple of int
        Of each dim, leftmost first; strides in elements.
    dtype : str
        torch's name.
    """

    data_ptr: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str


class ParallelGlobalLayout(NamedTuple):
    """A parallel global layout as a launch passes it.

    Parameters
    ----------
    data_ptrs : tuple of int
        A pointer for each device.
    extents : tuple of int
        Batch, depth, rows, cols.
    dtype : str
        torch's name.
    dev_idx : int
        Which device the launch is for.
    multicast_ptr : int
        0 without multicast.
    """

    data_ptrs: tuple[int, ...]
    extents: tuple[int, int, int, int]
    dtype: str
    dev_idx: int
    multicast_ptr: int = 0


class Globals(dict[str, Any]):
    """The fields of one launch by their names. It holds the tensors that they point to.

    Parameters
    ----------
    result : object
        What the call would return: its outputs are allocated, and not written.
    """

    def __init__(self, fields: dict[str, Any], result: Any, held: Any) -> None:
        super().__init__(fields)
        self.result = result
        self._held = held


def make_globals(kernel: Kernel | PreparedLaunch | str, *args: Any, **kwargs: Any) -> list[Globals]:
    """What a call would pass to its kernel: parsed, checked and allocated as by the call, and not launched.

    Nothing but the kernel's glue is compiled for it.

    Parameters
    ----------
    kernel : Kernel, str or PreparedLaunch
        A prepared launch shows what it passes, and takes no arguments.
    args, kwargs
        The call's.

    Returns
    -------
    list of Globals
        One for each launch: for each device, or one.

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
            raise SpecError(f"{kernel!r} is no kernel; expected a name, a tkjit.Kernel or what its prepare returns")
        loaded = kernel.kernel
        overload, result, steps, scratch = loaded.show_prepared(kernel, *args, **kwargs)
    else:
        loaded = load(kernel)
        overload, result, steps, scratch = loaded.collect(*args, **kwargs)
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
    """A field as a person looks at it; an absent one is None."""
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
    """Extents by the axes of a global layout."""
    batch, depth, rows, cols = (*(1,) * (4 - len(extents)), *extents)
    return batch, depth, rows, cols
