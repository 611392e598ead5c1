"""The other processes of parallel tensors: when one ends, kernels that wait for it are given up, and name it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from tkjit.config import Settings
from tkjit.loader import loader_for
from tkjit.processes import Process, this_process

WATCH_S = 0.1
GPU_PATIENCE_S = 20.0  # a kernel on a GPU cannot be given up; how long the process may still end by itself


class Peer(NamedTuple):
    """A process of a group."""

    rank: int
    process: Process

    def __str__(self) -> str:
        return f"rank {self.rank} (process {self.process.pid} on {self.process.host})"


_watched: set[Peer] = set()
_watching: list[int] = []  # the process that has the thread, which a forked child does not have


def watch(peers: Sequence[Peer]) -> None:
    """Watch processes of this machine until one of them ends."""
    own = this_process()
    _watched.update(peer for peer in peers if peer.process.is_here and peer.process != own)
    if _watched and os.getpid() not in _watching:
        _watching[:] = [os.getpid()]
        threading.Thread(target=_watch, name="tkjit-peers", daemon=True).start()


def _watch() -> None:
    runtime = loader_for(Settings.from_environment()).runtime
    while True:
        # all of them: who gave up because of another may be gone before that is noticed here
        ended = sorted(peer for peer in list(_watched) if not peer.process.is_alive)
        if ended:
            names = " and ".join(map(str, ended))
            verb = "has" if len(ended) == 1 else "have"
            reason = f"{names} {verb} ended, and kernels over several devices wait for it"
            runtime.give_up(reason)
            _end_waiting_on_gpu(reason)
            return
        time.sleep(WATCH_S)


def _end_waiting_on_gpu(reason: str) -> None:
    """End a process whose GPU waits for one that is gone: there is no other way to stop a kernel."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return
    end = time.monotonic() + GPU_PATIENCE_S
    stuck = [torch.cuda.current_stream(device) for device in range(torch.cuda.device_count())]
    while time.monotonic() < end:
        if all(stream.query() for stream in stuck):
            return
        time.sleep(WATCH_S)
    print(f"tkjit: {reason}; this process is ended, since its GPU would wait for ever", file=sys.stderr, flush=True)
    os._exit(1)
