"""Returns ``__constant__`` and ``__device__`` variables of a source as tensors that share their memory."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from tkjit.errors import ArgumentError, LaunchError, SpecError
from tkjit.loader import Loader
from tkjit.spec import DTYPES, Spec, Variant


class _Arg(ctypes.Structure):
    """The C struct ``TkjitArg`` (``include/tkjit/arg.h``)."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("extents", ctypes.c_int64 * 8),
        ("strides", ctypes.c_int64 * 8),
        ("rank", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("present", ctypes.c_int32),
    )


class _Memory:
    """GPU memory with the interface that torch needs to make a tensor of it."""

    def __init__(self, address: int, size_bytes: int) -> None:
        self.__cuda_array_interface__ = {
            "data": (address, False),
            "shape": (size_bytes,),
            "typestr": "|u1",
            "version": 3,
        }


def symbol(loader: Loader, spec: Spec, variant: Variant, name: str, device: Any) -> torch.Tensor:
    """See ``Kernel.symbol``."""
    known = list(dict.fromkeys([*(f.member or f.name for f in spec.constants), *spec.symbols]))
    if name not in known:
        named = f"it has {', '.join(known)}" if known else "it has none"
        raise SpecError(f"{spec.name}: the spec has no symbol {name!r}; {named}; name it in symbols=")
    try:
        on = torch.device(device if device is not None else "cuda" if torch.cuda.is_available() else "cpu")
    except (RuntimeError, TypeError) as reason:
        raise ArgumentError(f"{spec.name}: device is {device!r}; expected cpu or cuda") from reason
    if on.type not in ("cpu", "cuda") or (on.type == "cuda" and not torch.cuda.is_available()):
        raise ArgumentError(f"{spec.name}: {on} is not a device of this machine that can run kernels")
    index = on.index if on.index is not None else torch.cuda.current_device() if on.type == "cuda" else 0
    launcher = loader.open_variant(spec, variant, loader.target(on.type, index))
    library = ctypes.CDLL(str(launcher.entry.shared_object))  # the loader has already opened it
    library.tkjit_symbol.restype = ctypes.c_char_p
    described = _Arg()
    error = library.tkjit_symbol(name.encode(), index, ctypes.byref(described))
    if error is not None:
        raise LaunchError(f"{spec.name}: {name}: {error.decode()}")
    extents = list(described.extents[: described.rank])
    dtype = getattr(torch, DTYPES[described.dtype].name)
    size_bytes = dtype.itemsize
    for extent in extents:
        size_bytes *= extent
    if on.type == "cuda":
        raw_bytes = torch.as_tensor(_Memory(described.data, size_bytes), device=torch.device("cuda", index))
    else:
        raw_bytes = torch.frombuffer((ctypes.c_char * size_bytes).from_address(described.data), dtype=torch.uint8)
    return raw_bytes.view(dtype).view(extents)
