"""Watches the other processes of parallel tensors. If one ends, aborts the kernels that wait for it, and names it.

A thread checks regularly whether the processes are alive, because kernels wait in shared memory, and nothing there
shows that another process has ended.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any

from tkjit.config import Settings
from tkjit.loader import loader_for
from tkjit.parallel.exchange import Peer, who_has
from tkjit.system.process import this_process

WATCH_S = 0.1
GPU_PATIENCE_S = 20.0  # a kernel on a GPU cannot be aborted, so it gets this long to end by itself


class Peers:
    """The processes in a parallel tensor's group. They are watched for as long as the tensor exists.

    Attributes
    ----------
    others : tuple of Peer
        The other processes on this machine.
    known : object
        The runtime's object through which launches learn that a process has ended.
    """

    def __init__(self, peers: Sequence[Peer]) -> None:
        own = this_process()
        self.others = tuple(peer for peer in peers if peer.process.is_here and peer.process != own)
        self.known: Any = loader_for(Settings.from_environment()).runtime.Peers()


_watched: dict[int, weakref.ref[Peers]] = {}
_numbers = itertools.count()
_watching: list[int] = []  # the pid of the process with the watching thread, which a forked child lacks


def watch(peers: Sequence[Peer]) -> Peers:
    """Watch the processes on this machine until one of them ends."""
    group = Peers(peers)
    _watched[next(_numbers)] = weakref.ref(group)
    if os.getpid() not in _watching:
        _watching[:] = [os.getpid()]
        threading.Thread(target=_watch, name="tkjit-peers", daemon=True).start()
    return group


def _watch() -> None:
    while True:
        _look()  # a separate function, so that this thread keeps no group alive while it sleeps
        time.sleep(WATCH_S)


def _look() -> None:
    for number, known in _watched.copy().items():  # a copy, because other threads add entries
        group = known()
        # report every process that has ended: one that ended only because of another process may be noticed first
        ended = sorted(peer for peer in group.others if not peer.process.is_alive) if group else []
        if group is None or ended:
            del _watched[number]
        if group and ended:
            _give_up(group, ended)


def _give_up(group: Peers, ended: Sequence[Peer]) -> None:
    reason = f"{who_has(ended, 'ended')}, and kernels over several devices wait for it"
    group.known.give_up(reason)
    if group.known.device >= 0:
        threading.Thread(target=_end_if_stuck, args=(group.known.device, reason), daemon=True).start()


def _end_if_stuck(device: int, reason: str) -> None:
    """End this process if its GPU still waits for a process that has ended. There is no other way to stop a kernel."""
    import torch

    waiting = threading.Thread(target=torch.cuda.synchronize, args=(device,), daemon=True)
    waiting.start()
    waiting.join(GPU_PATIENCE_S)
    if waiting.is_alive():
        print(f"tkjit: {reason}; ending this process, because its GPU would wait forever", file=sys.stderr, flush=True)
        os._exit(1)
