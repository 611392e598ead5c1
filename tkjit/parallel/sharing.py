"""Shares a tensor's parts between the processes of a group, using only torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tkjit.parallel.club import reach
from tkjit.parallel.exchange import attempt, exchange

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup


class Parts(NamedTuple):
    """All parts of a tensor, as one process has mapped them.

    Parameters
    ----------
    pointers : list of int
        The parts' addresses, by rank.
    multicast_ptr : int
        The address that reaches all parts, or 0 without multicast.
    held : object
        An object that keeps the parts mapped.
    """

    pointers: list[int]
    multicast_ptr: int
    held: Any


class SharingMethod(NamedTuple):
    """A way to share memory between processes, in two steps that each process takes.

    Parameters
    ----------
    share : callable
        Returns a picklable handle of this process's part for each process of the group.
    open : callable
        Maps all parts, given the handles that the processes made for this process.
    """

    share: Callable[[torch.Tensor, ProcessGroup], Sequence[Any]]
    open: Callable[[torch.Tensor, ProcessGroup, list[Any]], Parts]


def open_parts(way: SharingMethod, own: torch.Tensor, group: ProcessGroup) -> Parts:
    """Share this process's part and map the others' parts. Every process in the group has to call this.

    Raises
    ------
    LaunchError
        In every process, if one of the processes fails or has ended.
    """
    shared, error = attempt(lambda: way.share(own, group))
    try:
        handles = [of_other[group.rank()] for of_other in exchange(group, "shares its part", shared, error)]
        parts, error = attempt(lambda: way.open(own, group, handles))
        # wait for all processes, because nobody may free or write a part before the others have mapped it
        exchange(group, "has mapped the parts", None, error)
    finally:
        del error
    assert parts is not None  # if they are None, exchange has raised the error
    return parts


def _share_storage(own: torch.Tensor, group: ProcessGroup) -> list[Any]:
    # this call moves the storage into shared memory, where it has the same name for all processes
    return [(own.untyped_storage()._share_filename_cpu_(), own.storage_offset())] * group.size()


def _open_storages(own: torch.Tensor, group: ProcessGroup, handles: list[Any]) -> Parts:
    import torch

    parts = []
    for rank, (storage, offset) in enumerate(handles):
        if rank == group.rank():
            parts.append(own)
            continue
        shared = torch.UntypedStorage._new_shared_filename_cpu(*storage)
        parts.append(torch.empty(0, dtype=own.dtype).set_(shared, offset, own.shape, own.stride()))
    return Parts([part.data_ptr() for part in parts], 0, parts)


# torch's shared memory manager cleans up after killed processes
SHARED_MEMORY = SharingMethod(_share_storage, _open_storages)


def _share_ipc(own: torch.Tensor, group: ProcessGroup) -> list[Any]:
    from torch.multiprocessing.reductions import reduce_tensor

    # make a separate handle for each process, because torch counts the references
    others = [reader != group.rank() for reader in range(group.size())]
    return [reduce_tensor(own) if other else None for other in others]  # type: ignore[no-untyped-call]


def _open_ipc(own: torch.Tensor, group: ProcessGroup, handles: list[Any]) -> Parts:
    parts = []
    for rank, handle in enumerate(handles):
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


def _open_symmetric(own: torch.Tensor, group: ProcessGroup, handles: list[Any]) -> Parts:
    import torch.distributed._symmetric_memory as symmetric_memory

    handle = symmetric_memory.rendezvous(own, group)
    # a part may begin after the start of its segment, at the same offset in every process
    offset = own.data_ptr() - int(handle.buffer_ptrs[handle.rank])
    multicast = int(handle.multicast_ptr)
    pointers = [int(pointer) + offset for pointer in handle.buffer_ptrs]
    return Parts(pointers, multicast and multicast + offset, handle)


# for memory that torch allocated as symmetric memory
SYMMETRIC_MEMORY = SharingMethod(_share_nothing, _open_symmetric)
