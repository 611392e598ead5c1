"""What the processes of a group tell each other: one that fails, ends or does not come is named to all.

Not by the group's own collectives: gloo's wait for a process that was killed does not end where a child of that process
still holds its connections, as torch's manager of shared memory does.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from tkjit.errors import LaunchError, TkjitError
from tkjit.processes import Process, this_process

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

END_S = 2.0  # how long a process that is being killed may look alive to others
LONGEST_PAUSE_S = 0.05


class Peer(NamedTuple):
    """A process of a group, by its rank among all."""

    rank: int
    process: Process

    def __str__(self) -> str:
        return f"rank {self.rank} (process {self.process.pid} on {self.process.host})"


def exchange(
    group: ProcessGroup, said: Any = None, error: Exception | str | None = None, kind: type[TkjitError] = LaunchError
) -> list[Any]:
    """Tell all processes of a group something, and learn what they say, by their ranks in it.

    Parameters
    ----------
    error : Exception or str, optional
        Why this process has nothing to say. All processes raise it then.
    kind : type
        What is raised for it.

    Raises
    ------
    LaunchError
        If a process ends, or does not come within torch's default timeout of groups.
    """
    board = _boards.get(group) or _boards.setdefault(group, _Board(group))
    problem = "" if error is None else str(error).split("\n", 1)[0] or type(error).__name__
    answers = board.exchange((problem, said))
    for rank, (problem, _) in enumerate(answers):
        if problem:
            raise kind(f"rank {rank}: {problem}") from (error if isinstance(error, Exception) else None)
    return [answer for _, answer in answers]


class _Board:
    """Where the processes of a group leave what they say: the group's store."""

    def __init__(self, group: ProcessGroup) -> None:
        import torch.distributed as dist

        self._store: Any = group.get_group_store()
        self._rank = group.rank()
        self._ranks = dist.get_process_group_ranks(group)  # among all
        self._number = 0
        self._peers = self._meet(group)

    def exchange(self, said: Any) -> list[Any]:
        self._number += 1
        keys = self._keys(self._number)
        read = f"tkjit/{self._number}/read"
        try:
            self._store.set(keys[self._rank], pickle.dumps(said))
            self._wait_until(lambda: self._store.check(keys), keys)
            answers = [pickle.loads(self._store.get(key)) for key in keys]
            readers = self._store.add(read, 1)
            if self._ranks[self._rank] == 0:  # which mostly keeps the store, and may end after this
                self._wait_until(lambda: self._store.add(read, 0) == len(keys), keys)
            if readers == len(keys):  # nobody reads the one before any more
                for key in (*self._keys(self._number - 1), f"tkjit/{self._number - 1}/read"):
                    self._store.delete_key(key)
        except RuntimeError as failure:  # of the store
            raise LaunchError(self._ended() or f"the group's store is lost, and perhaps rank 0: {failure}") from failure
        return answers

    def _keys(self, number: int) -> list[str]:
        return [f"tkjit/{number}/{rank}" for rank in range(len(self._ranks))]

    def _meet(self, group: ProcessGroup) -> list[Peer]:
        """Learn which processes there are: by a collective, in which a backend notices one that is not there at all."""
        import torch.distributed as dist

        processes: list[Any] = [None] * len(self._ranks)
        keys = self._keys(0)
        try:
            self._store.set(keys[self._rank], pickle.dumps(this_process()))
            dist.all_gather_object(processes, this_process(), group=group)
        except RuntimeError as failure:
            raise LaunchError(self._absent(keys) or str(failure).split("\n", 1)[0]) from failure
        return [Peer(rank, process) for rank, process in zip(self._ranks, processes, strict=True)]

    def _absent(self, keys: Sequence[str]) -> str:
        """Who has not come to the first exchange; empty if all have."""
        try:
            away = [rank for rank, key in zip(self._ranks, keys, strict=True) if not self._store.check([key])]
        except RuntimeError:
            return "a process of the group has ended, and with it the group's store, which rank 0 keeps"
        return _sentence([f"rank {rank}" for rank in away], "not come")

    def _wait_until(self, done: Callable[[], bool], keys: Sequence[str]) -> None:
        from torch.distributed.constants import default_pg_timeout

        deadline = time.monotonic() + default_pg_timeout.total_seconds()
        pause = LONGEST_PAUSE_S / 100
        while not done():
            if ended := self._ended(patience_s=0):
                raise LaunchError(ended)
            if time.monotonic() > deadline:
                raise LaunchError(self._absent(keys))
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def _ended(self, patience_s: float = END_S) -> str:
        """Who of the processes that are known has ended; empty if none has."""
        deadline = time.monotonic() + patience_s
        while not (ended := [str(peer) for peer in self._peers if not peer.process.is_alive]):
            if time.monotonic() >= deadline:
                return ""
            time.sleep(LONGEST_PAUSE_S)
        return _sentence(ended, "ended")


_boards: WeakKeyDictionary[ProcessGroup, _Board] = WeakKeyDictionary()


def _sentence(who: Sequence[str], what: str) -> str:
    return f"{' and '.join(who)} {'has' if len(who) == 1 else 'have'} {what}" if who else ""
