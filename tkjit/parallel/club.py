"""``Club``, which runs one thread per device, and peer access between the devices of a process."""

from __future__ import annotations

import atexit
import contextvars
import inspect
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from tkjit.config import Settings
from tkjit.errors import ArgumentError, LaunchError
from tkjit.loader import loader_for
from tkjit.spec.checks import MAX_DEVICES

if TYPE_CHECKING:
    import torch

_open_clubs: weakref.WeakSet[Club] = weakref.WeakSet()


class Club:
    """A group of devices that work together. Each has a stream, and each but the first has a thread of its own.

    A club launches kernels over several devices. If you call a kernel with lists, tkjit makes a club automatically. If
    you make the club yourself, you can choose the streams and run Python functions, and the devices' contexts are
    created before the first call. The calling thread does the work of the first device.

    Parameters
    ----------
    devices : int, or sequence of int, str or torch.device
        ``8`` or ``[0, 1, 2]`` for CUDA devices, ``["cuda:0", "cuda:0"]`` to use one device twice, or ``["cpu"] * 4``
        for host threads under the simulator. At most 32.
    streams : sequence of torch.cuda.Stream, optional
        One stream for each device, or None for the stream that is current on the device when a call is made. By
        default, all are None; but if a device occurs twice, the club makes new streams, and synchronizes them
        with the current streams before and after each call.
    device_ids : sequence of int, optional
        The same as ``devices``, under ThunderKittens' name.

    Raises
    ------
    ArgumentError
        If a device does not exist, the devices are of different kinds, the number of streams is wrong, or both
        ``devices`` and ``device_ids`` are given.

    Examples
    --------
    >>> import tkjit
    >>> club = tkjit.Club(["cpu"] * 2)
    >>> club
    <tkjit.Club of 2 cpu devices>
    >>> club.execute(lambda dev_idx: None)
    >>> club.close()
    """

    def __init__(
        self,
        devices: int | Sequence[int | str | torch.device] | None = None,
        streams: Sequence[Any] | None = None,
        *,
        device_ids: Sequence[int] | None = None,
    ) -> None:
        if devices is not None and device_ids is not None:
            raise ArgumentError("expected devices or device_ids, got both; they are two names of one parameter")
        kind, indices = _devices_of(device_ids if devices is None else devices)
        self.kind = kind
        self.indices = indices
        self.streams = _streams_of(kind, indices, streams)
        if kind == "cuda":
            _create_contexts(indices)
        # the caller does not know streams that the club made, so the club orders them with the current streams
        self._orders = streams is None and any(self.streams)
        around = partial(_order, indices, self.streams) if self._orders else None
        runtime = loader_for(Settings.from_environment()).runtime
        self._club = runtime.Club(kind, list(indices), list(self.streams), around)
        _open_clubs.add(self)

    @property
    def devices(self) -> tuple[torch.device, ...]:
        import torch

        return tuple(torch.device("cpu") if self.kind == "cpu" else torch.device(self.kind, i) for i in self.indices)

    def __len__(self) -> int:
        return len(self.indices)

    def execute(self, task: Callable[[int], object] | Callable[[int, Any], object]) -> None:
        """Call a function in each device's thread, on its device and stream, and wait for all of them.

        Parameters
        ----------
        task : callable
            A function that takes the device's number in the club. If the function has a second parameter without a
            default, it also gets the device's stream: a ``torch.cuda.Stream``, or None on the CPU.

        Raises
        ------
        Exception
            The exception that the function raised. If the function failed on several devices, the first device's
            exception is raised, with notes about the others.
        """

        import torch

        # the threads inherit the calling thread's state
        grad, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        contexts = [contextvars.copy_context() for _ in self.indices]
        streams = self._streams_now()
        takes_stream = _takes_stream(task)

        def on_device(dev_idx: int) -> None:
            around = _current(self.devices[dev_idx], streams[dev_idx])
            arguments = (dev_idx, streams[dev_idx]) if takes_stream else (dev_idx,)
            with torch.inference_mode(inference), torch.set_grad_enabled(grad), around:
                contexts[dev_idx].run(task, *arguments)

        if self._orders:
            _order(self.indices, self.streams, True)
        try:
            found = self._club.execute(on_device)
        except RuntimeError as refusal:  # the club is already executing a call, or the interpreter exits
            raise LaunchError(str(refusal)) from None
        if self._orders:
            _order(self.indices, self.streams, False)
        raised = [(i, error) for i, error in enumerate(found) if error is not None]
        if not raised:
            return
        (first, error), *others = raised
        if hasattr(error, "add_note"):  # since Python 3.11
            error.add_note(f"on device {first} of {len(self)}")
            for i, other in others:
                error.add_note(f"and on device {i}: {type(other).__name__}: {other}")
        raise error

    def _streams_now(self) -> list[Any]:
        """Return the streams for a call, with each None replaced by the device's current stream."""
        if self.kind == "cpu":
            return [None] * len(self)
        import torch

        return [
            torch.cuda.current_stream(index) if stream is None else stream
            for index, stream in zip(self.indices, self.streams, strict=True)
        ]

    def close(self) -> None:
        """End the threads; a later call restarts them."""
        self._club.close()

    def __enter__(self) -> Club:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<tkjit.Club of {len(self)} {self.kind} devices>"


@cache
def club_for(kind: str, indices: tuple[int, ...]) -> Club:
    """Return this process's club for some devices. The runtime calls this for calls without ``club=``."""
    devices = ["cpu"] * len(indices) if kind == "cpu" else [f"{kind}:{i}" for i in indices]
    enable_peer_access(devices)  # a kernel also accesses tensors on the other devices
    return Club(devices)


@atexit.register
def _close_all() -> None:
    """End all clubs when the interpreter exits, because their threads may call into it."""
    for club in list(_open_clubs):
        club._club.close_for_good()


def enable_peer_access(devices: int | Sequence[int | str | torch.device]) -> None:
    """Let each of these devices read and write the other devices' memory directly.

    This covers all tensors from torch's allocator. On the CPU, or with only one device, this function does nothing.

    Raises
    ------
    LaunchError
        If two devices cannot access each other's memory; the message names them.
    """
    import torch

    kind, indices = _devices_of(devices)
    if kind == "cpu":
        return
    for device in indices:
        for peer in indices:
            if device != peer and not torch.cuda.can_device_access_peer(device, peer):
                raise LaunchError(
                    f"cuda:{device} cannot access the memory of cuda:{peer}: no NVLink and no PCIe peer access"
                )
    for device in indices:
        for peer in indices:
            if device != peer:
                reach(device, peer)


def reach(device: int, peer: int) -> None:
    """Let a device read and write a peer's memory.

    torch enables the access when it first copies between two devices, also for its expandable segments.
    """
    import torch

    torch.empty(1, device=f"cuda:{peer}").copy_(torch.ones(1, device=f"cuda:{device}"))
    torch.cuda.synchronize(peer)


def _takes_stream(task: Callable[..., object]) -> bool:
    """Return whether a function takes a stream in addition to the device's number."""
    try:
        parameters = inspect.signature(task).parameters.values()
    except (TypeError, ValueError):  # a C function without a signature
        return False
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in by_position and each.default is each.empty for each in parameters) == 2


def _devices_of(devices: int | Sequence[int | str | torch.device] | None) -> tuple[str, tuple[int, ...]]:
    """Return the kind of the devices, and their indices; CPU devices are numbered from 0."""
    import torch

    if isinstance(devices, (str, bool)) or not isinstance(devices, (int, Iterable)):
        expected = "a number of CUDA devices, or a list such as ['cuda:0', 'cuda:1']"
        raise ArgumentError(f"devices is {devices!r}; expected {expected}")
    listed = list(range(devices)) if isinstance(devices, int) else list(devices)
    if not 1 <= len(listed) <= MAX_DEVICES:
        raise ArgumentError(f"{len(listed)} devices; expected 1 to {MAX_DEVICES}")
    try:
        found = [torch.device("cuda", d) if isinstance(d, int) else torch.device(d) for d in listed]
    except (RuntimeError, TypeError) as error:
        raise ArgumentError(f"{devices!r}: {str(error).splitlines()[0]}") from None
    kinds = {device.type for device in found}
    if kinds == {"cpu"}:
        return "cpu", tuple(range(len(found)))
    if kinds != {"cuda"}:
        raise ArgumentError(
            f"devices of the kinds {', '.join(sorted(kinds))}; expected only CUDA devices, or only 'cpu'"
        )
    count = torch.cuda.device_count()
    if count == 0:
        raise ArgumentError(f"there is no {found[0]}; torch sees 0 CUDA device(s)")
    indices = tuple(torch.cuda.current_device() if device.index is None else device.index for device in found)
    for index in indices:
        if index >= count:
            raise ArgumentError(f"there is no cuda:{index}; torch sees {count} CUDA device(s)")
    return "cuda", indices


def _streams_of(kind: str, indices: tuple[int, ...], streams: Sequence[Any] | None) -> tuple[Any, ...]:
    if streams is not None:
        if kind == "cpu":
            raise ArgumentError("streams= is for CUDA devices; omit it on the cpu, which has no streams")
        if len(streams) != len(indices):
            raise ArgumentError(f"{len(streams)} streams for {len(indices)} devices; expected one for each")
        for index, stream in zip(indices, streams, strict=True):
            if stream is not None and getattr(stream, "device_index", None) != index:
                raise ArgumentError(
                    f"expected a torch.cuda.Stream of cuda:{index}, got {stream!r}; pass one per device, in order"
                )
        return tuple(streams)
    if kind == "cpu" or len(set(indices)) == len(indices):
        return (None,) * len(indices)
    import torch

    # kernels that wait for each other would deadlock in a shared stream
    return tuple(torch.cuda.Stream(index) for index in indices)  # type: ignore[no-untyped-call]


def _order(indices: Sequence[int], streams: Sequence[Any], before: bool) -> None:
    """Make a club's own streams wait for the current streams before a call, and the other way round after it."""
    import torch

    for index, stream in zip(indices, streams, strict=True):
        current = torch.cuda.current_stream(index)
        (stream.wait_stream(current) if before else current.wait_stream(stream))


def _create_contexts(indices: Sequence[int]) -> None:
    """Create the devices' contexts before the first call, because each takes a tenth of a second."""
    import torch

    for index in set(indices):
        torch.empty(1, device=f"cuda:{index}")
        torch.cuda.synchronize(index)


def _current(device: torch.device, stream: Any) -> Any:
    """Return a context manager that makes a device and its stream current."""
    from contextlib import ExitStack

    import torch

    stack = ExitStack()
    if device.type == "cuda":
        stack.enter_context(torch.cuda.device(device))
        if stream is not None:
            stack.enter_context(torch.cuda.stream(stream))
    return stack
