"""Shares the parts of a tensor between the processes of a group, through torch alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tkjit.parallel.club import reach
from tkjit.parallel.exchange import attempt, exchange

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup


class Parts(NamedTuple):
    """All parts of a tensor, as one process sees them.

    Parameters
    ----------
    pointers : list of int
        By rank.
    multicast_ptr : int
        0 without multicast.
    held : object
        What keeps them mapped.
    """

    pointers: list[int]
    multicast_ptr: int
    held: Any


class SharingMethod(NamedTuple):
    """A way to share memory between processes, in two steps of each of them.

    Parameters
    ----------
    share : callable
        What the others need to know of this process's part: a picklable object for each of them.
    open : callable
        All parts, of what every process has said to this one.
    """

    share: Callable[[torch.Tensor, ProcessGroup], Sequence[Any]]
    open: Callable[[torch.Tensor, ProcessGroup, list[Any]], Parts]


def open_parts(way: SharingMethod, own: torch.Tensor, group: ProcessGroup) -> Parts:
    """Share this process's part, and map the others'; every process of the group calls it.

    Raises
    ------
    LaunchError
        If that fails in one of them, or one has ended; in all of them alike.
    """
    shared, error = attempt(lambda: way.share(own, group))
    try:
        told = [of_other[group.rank()] for of_other in exchange(group, "shares its part", shared, error)]
        parts, error = attempt(lambda: way.open(own, group, told))
        exchange(group, "has mapped the parts", None, error)  # nobody frees or writes what another has yet to map
    finally:
        del error
    assert parts is not None  # or its error was raised
    return parts


def _share_storage(own: torch.Tensor, group: ProcessGroup) -> list[Any]:
    # a storage has one name, and asking moves it into shared memory
    return [(own.untyped_storage()._share_filename_cpu_(), own.storage_offset())] * group.size()


def _open_storages(own: torch.Tensor, group: ProcessGroup, told: list[Any]) -> Parts:
    import torch

    parts = []
    for rank, (storage, offset) in enumerate(told):
        if rank == group.rank():
            parts.append(own)
            continue
        shared = torch.UntypedStorage._new_shared_filename_cpu(*storage)
        parts.append(torch.empty(0, dtype=own.dtype).set_(shared, offset, own.shape, own.stride()))
    return Parts([part.data_ptr() for part in parts], 0, parts)


# torch's manager removes what killed processes leave
SHARED_MEMORY = SharingMethod(_share_storage, _open_storages)


def _share_ipc(own: torch.Tensor, group: ProcessGroup) -> list[Any]:
    from torch.multiprocessing.reductions import reduce_tensor

    # one for each process that opens it, as torch counts them
    others = [reader != group.rank() for reader in range(group.size())]
    return [reduce_tensor(own) if other else None for other in others]  # type: ignore[no-untyped-call]


def _open_ipc(own: torch.Tensor, group: ProcessGroup, told: list[Any]) -> Parts:
    parts = []
    for rank, handle in enumerate(told):
        if rank == group.rank():
            parts.append(own)
            continue
        rebuild, arguments = handle
        parts.append(rebuild(*arguments))
        reach(own.device.index, parts[-1].device.index)
    return Parts([part.data_ptr() for part in parts], 0, parts)


CUDA_IPC = SharingMethod(_share_ipc, _open_ipc)


def _share_nothing(own: torch.Tensor, group: ProcessGroup) -> list[Any]:
    return [None] * group.size()


def _open_symmetric(own: torch.Tensor, group: ProcessGroup, told: list[Any]) -> Parts:
    import torch.distributed._symmetric_memory as symmetric_memory

    handle = symmetric_memory.rendezvous(own, group)
    # a part may begin behind its segment, everywhere alike
    offset = own.data_ptr() - int(handle.buffer_ptrs[handle.rank])
    multicast = int(handle.multicast_ptr)
    pointers = [int(pointer) + offset for pointer in handle.buffer_ptrs]
    return Parts(pointers, multicast and multicast + offset, handle)


# of memory that torch has allocated for it
SYMMETRIC_MEMORY = SharingMethod(_share_nothing, _open_symmetric)
