"""``ParallelTensor``: a tensor with one part per process. Each process can access all parts."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tkjit.config import Settings
from tkjit.errors import ArgumentError, LaunchError
from tkjit.loader import loader_for
from tkjit.parallel.exchange import Peer, attempt, exchange
from tkjit.parallel.peers import watch
from tkjit.parallel.sharing import CUDA_IPC, SHARED_MEMORY, SYMMETRIC_MEMORY, open_parts
from tkjit.spec import BY_NAME, ParallelLayout
from tkjit.spec.checks import MAX_DIMS
from tkjit.system.process import this_process

if TYPE_CHECKING:
    import torch


class ParallelTensor(ParallelLayout):
    """A tensor with a part on each device of a group. Each process has one device, as under ``torchrun``.

    All processes of the group make the tensor together, with the same shape and dtype. If they make several parallel
    tensors, all processes have to make them in the same order. Pass the tensor for a kernel's ``ParallelTensor``
    parameter; every process calls the kernel on its own device. torch shares the parts: on CUDA devices through
    ``torch.distributed._symmetric_memory``, or through CUDA IPC for an existing tensor; on the CPU through storages in
    shared memory.

    Parameters
    ----------
    tensor : torch.Tensor, or sequence of int
        This process's part, contiguous and with at most 4 dimensions; or the shape of a new part. The storage of a CPU
        tensor is moved into shared memory, as with ``share_memory_``. The tensor and its views remain valid. But if the
        tensor was made from a NumPy array, or was shared with a process before, that array or process keeps the old
        memory.
    dtype : torch.dtype, optional
        The dtype of a new part. By default, torch's default dtype.
    device : str or torch.device, optional
        The device of a new part. By default ``"cuda"`` if the group uses NCCL, and ``"cpu"`` otherwise.
    group : torch.distributed.ProcessGroup, optional
        The processes; by default all of them. They must be on one node, or connected by NVLink.
    multicast : bool
        Request an address that reaches all parts. Only a new part on CUDA devices can have one.

    Attributes
    ----------
    tensor : torch.Tensor
        This process's part.
    rank, world_size : int
        This process's rank in the group, and the size of the group.
    data_ptrs : tuple of int
        The address of each part in this process.
    multicast_ptr : int
        The address that reaches all parts, or 0 without multicast.

    Raises
    ------
    ArgumentError
        If there is no process group, or if the processes' parts differ in shape, dtype or kind of memory. In the
        second case, all processes raise it.
    LaunchError
        If a process has ended or cannot map the others' parts (the message has the process's rank), or if multicast is
        not available.

    Examples
    --------
    ``torchrun --nproc-per-node 4 program.py``::

        torch.distributed.init_process_group()
        x = tkjit.ParallelTensor((4096,), dtype=torch.bfloat16)
        x.tensor.copy_(gradients)
        tkjit.load("all_reduce")(x, tkjit.ParallelTensor.zeros((128,), dtype=torch.int32))
    """

    tensor: torch.Tensor

    def __init__(
        self,
        tensor: torch.Tensor | Sequence[int],
        *,
        dtype: torch.dtype | None = None,
        device: str | torch.device | None = None,
        group: Any = None,
        multicast: bool = False,
    ) -> None:
        import torch
        import torch.distributed as dist

        if not (dist.is_available() and dist.is_initialized()):
            raise ArgumentError(
                "there is no process group: start the program with torchrun and call "
                "torch.distributed.init_process_group(); in one process, pass lists with a tensor for each device"
            )
        everyone: Any = dist.group.WORLD
        self.group = everyone if group is None else group
        self.rank: int = dist.get_rank(self.group)
        self.world_size: int = dist.get_world_size(self.group)
        if self.rank < 0:
            raise ArgumentError(
                "this process is not in the group; make its parallel tensors only in the group's processes"
            )
        is_new = not isinstance(tensor, torch.Tensor)
        if isinstance(tensor, torch.Tensor):
            own, problem = tensor, _problem(tensor, dtype, device, multicast)
        else:
            own, problem = _empty(tensor, dtype, device or _device_of(self.group), multicast)
        # if the runtime cannot be loaded, _meet raises the error in all processes
        runtime, failure = attempt(lambda: loader_for(Settings.from_environment()).runtime)
        try:
            self._peers = watch(self._meet(own, problem or failure, _memory(own, is_new, multicast)))
        finally:
            del failure
        cpu = own.device.type == "cpu"
        parts = open_parts(SHARED_MEMORY if cpu else SYMMETRIC_MEMORY if is_new else CUDA_IPC, own, self.group)
        if multicast and not parts.multicast_ptr:
            raise LaunchError("multicast=True: these devices have no multicast, which needs NVLink switches")
        self.tensor = own
        self.data_ptrs = tuple(parts.pointers)
        self.multicast_ptr = parts.multicast_ptr
        self._parts = parts.held
        peers = self._peers.known
        layout: Any = runtime.ParallelLayout  # type: ignore[union-attr]  # if None, _meet has raised the failure
        self._layout = layout(parts.pointers, parts.multicast_ptr, self.rank, own, parts.held, peers)

    @classmethod
    def zeros(
        cls,
        shape: Sequence[int],
        *,
        dtype: torch.dtype | None = None,
        device: str | torch.device | None = None,
        group: Any = None,
        multicast: bool = False,
    ) -> ParallelTensor:
        """Make a parallel tensor of zeros, for example for the signals of kernels that wait for each other."""
        import torch

        result = cls(shape, dtype=dtype, device=device, group=group, multicast=multicast)

        def fill() -> None:
            result.tensor.zero_()
            if result.device.type == "cuda":
                torch.cuda.current_stream(result.device).synchronize()

        # wait for all processes, because nobody may write to a part before it has been zeroed
        exchange(result.group, "has made zeros", None, attempt(fill)[1])
        return result

    @property
    def shape(self) -> torch.Size:
        return self.tensor.shape

    @property
    def dtype(self) -> torch.dtype:
        return self.tensor.dtype

    @property
    def device(self) -> torch.device:
        return self.tensor.device

    def __repr__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        place = f"{self.device}, rank {self.rank} of {self.world_size}"
        return f"<tkjit.ParallelTensor {tuple(self.shape)} {dtype} on {place}>"

    def _meet(self, own: torch.Tensor | None, problem: str | Exception | None, memory: str) -> list[Peer]:
        """Compare the parts of all processes, and raise the same error in all of them if the parts differ."""
        import torch.distributed as dist

        own_part = LocalPart(
            () if own is None else tuple(own.shape),
            "" if own is None else str(own.dtype),
            "" if own is None else own.device.type,
            memory,
            Peer(dist.get_rank(), this_process()),
        )
        kind = LaunchError if isinstance(problem, Exception) else ArgumentError
        all_parts: list[LocalPart] = exchange(self.group, "makes a parallel tensor", own_part, problem, kind)
        first = all_parts[0]
        for other in all_parts:
            rank, first_rank = other.peer.rank, first.peer.rank
            if other.what != first.what:
                raise ArgumentError(
                    f"rank {rank} passes {other.text}, but rank {first_rank} {first.text}; pass equal ones"
                )
            if other.kind == "cpu" and other.peer.process.machine != first.peer.process.machine:
                raise ArgumentError(
                    f"rank {rank} is on {other.peer.process.host}, but rank {first_rank} on {first.peer.process.host}; "
                    "processes share memory only within a node: pass group= with the processes of one node"
                )
        return [other.peer for other in all_parts]


class LocalPart(NamedTuple):
    """Describes one process's part. The other processes compare it with their own parts.

    Parameters
    ----------
    memory : str
        How the other processes will access the part, if there is more than one way.
    """

    shape: tuple[int, ...]
    dtype: str
    kind: str
    memory: str
    peer: Peer

    @property
    def what(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self.kind, self.memory

    @property
    def text(self) -> str:
        return f"{self.shape} {self.dtype.removeprefix('torch.')} on {self.kind}{self.memory}"


def _memory(own: torch.Tensor | None, is_new: bool, multicast: bool) -> str:
    if own is None or own.device.type == "cpu":
        return ""
    return (", a new one" if is_new else ", an existing tensor") + (" with multicast" if multicast else "")


def _problem(tensor: torch.Tensor, dtype: Any, device: Any, multicast: bool) -> str:
    """Return why a tensor cannot be a part, or an empty string."""
    if dtype is not None or device is not None:
        return "an existing tensor has a dtype and a device; pass dtype= and device= only with a shape"
    if tensor.device.type not in ("cpu", "cuda"):
        return f"the tensor is on {tensor.device}; expected a CPU or a CUDA tensor"
    if multicast:
        return "multicast=True: existing memory cannot be bound to a multicast address; pass a shape, and copy"
    if not tensor.is_contiguous():
        return "the tensor is not contiguous; pass tensor.contiguous()"
    return _problem_of_shape(tuple(tensor.shape), tensor.dtype)


def _problem_of_shape(shape: tuple[int, ...], dtype: torch.dtype) -> str:
    if len(shape) > MAX_DIMS:
        return f"{shape} has more than {MAX_DIMS} dimensions"
    if not shape or any(extent < 1 for extent in shape):
        return f"{shape} is not a shape of a part; expected 1 to {MAX_DIMS} extents of at least 1"
    if str(dtype).removeprefix("torch.") not in BY_NAME:
        return f"kernels do not support {dtype}; expected one of {', '.join(BY_NAME)}"
    return ""


def _device_of(group: Any) -> str:
    import torch
    import torch.distributed as dist

    # the config is "cpu:gloo,cuda:nccl" if the group was created without naming a backend
    serves_cuda = "cuda:nccl" in str(dist.get_backend_config(group)) or dist.get_backend(group) == "nccl"
    return "cuda" if serves_cuda and torch.cuda.is_available() else "cpu"


def _empty(given: Any, dtype: Any, device: Any, multicast: bool) -> tuple[Any, str]:
    """Return a new part and an empty string, or None and the reason, which the other processes have to learn."""
    import torch

    try:
        shape = tuple(operator.index(extent) for extent in given)
        dtype = torch.get_default_dtype() if dtype is None else dtype
        if not isinstance(dtype, torch.dtype):
            return None, f"dtype is {dtype!r}; expected a torch.dtype"
        where = torch.device(device)
    except (TypeError, RuntimeError) as error:
        return None, f"{given!r} on {device!r}: {str(error).splitlines()[0]}; expected a tensor, or a shape"
    if problem := _problem_of_shape(shape, dtype):
        return None, problem
    if where.type not in ("cpu", "cuda"):
        return None, f"device={device!r}; expected 'cpu' or a CUDA device"
    if multicast and where.type == "cpu":
        return None, "multicast=True: the cpu has no multicast; pass a CUDA device"
    try:
        if where.type == "cuda":
            import torch.distributed._symmetric_memory as symmetric_memory

            return symmetric_memory.empty(*shape, dtype=dtype, device=where), ""
        return torch.empty(shape, dtype=dtype, device=where), ""
    except Exception as error:  # the device does not exist, memory is short, or torch has no CUDA
        return None, str(error).split("\n", 1)[0]
