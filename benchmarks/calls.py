"""Measures the cost of one call, for tkjit and its peers."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from timeit import Timer

import torch

from benchmarks.harness import Row, interleaved

# On a GPU the launches must fit into the driver's queue, so that the host is timed and not the device.
CALLS = {"cpu": 50_000, "cuda": 500}
RUNS = 15


@dataclass(frozen=True)
class Peer:
    """One way to call a function.

    Parameters
    ----------
    build : callable
        Takes a device type and returns the statement's ``call``; raises an error if the peer is not available.
    statement : str
        The call as users write it; ``x``, ``y`` and ``z`` are vectors of 8 float32.
    limit : float or None
        The largest ratio of tkjit's time to this peer's that the project allows itself.
    calls : int
        The number of calls that the statement makes, if it is a loop itself.
    """

    name: str
    build: Callable[[str], object]
    statement: str = "call(x, y, z, 1.0)"
    limit: float | None = None
    calls: int = 1


def compare(what: str, ours: Peer, peers: Sequence[Peer], device: str) -> list[Row]:
    """Compare microseconds per call, measured in turns. An unavailable peer's row has the reason and no limit."""
    vectors = {name: torch.randn(8, device=device) for name in "xyz"}
    run = _timing(ours, vectors, device)
    runs = [_timing_or_why_not(peer, vectors, device) for peer in peers]
    mine, *measured = interleaved([run, *(run for run in runs if not isinstance(run, str))], RUNS)
    theirs = iter(measured)
    return [
        Row(what, f"{peer.name}: {run}", mine, None, "us")
        if isinstance(run, str)
        else Row(what, peer.name, mine, next(theirs), "us", peer.limit)
        for peer, run in zip(peers, runs, strict=True)
    ]


def _timing(peer: Peer, vectors: dict[str, torch.Tensor], device: str) -> Callable[[], float]:
    """A function that returns microseconds per call. The first call, which may compile, has already been made."""
    scope = {"call": peer.build(device), **vectors}
    timer = Timer(peer.statement, torch.cuda.synchronize if device == "cuda" else "pass", globals=scope)
    timer.timeit(1)
    calls = CALLS[device]
    return lambda: timer.timeit(calls // peer.calls) / calls * 1e6


def _timing_or_why_not(peer: Peer, vectors: dict[str, torch.Tensor], device: str) -> Callable[[], float] | str:
    try:
        return _timing(peer, vectors, device)
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed"
    except Exception as error:  # an error in one peer must not lose the others' rows
        traceback.print_exc(file=sys.stderr)
        return f"failed ({type(error).__name__})"
