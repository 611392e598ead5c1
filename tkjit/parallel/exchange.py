"""Exchanges messages between the processes of a group, and names a process that fails, ends or is missing.

It uses the group's store. A gloo collective can hang after a kill, while a child of the killed process holds its
connections. torch's manager of shared memory is such a child.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from tkjit.errors import LaunchError, TkjitError
from tkjit.system.process import Process, this_process

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

DYING_S = 2.0  # how long a process that is being killed may look alive to others
LONGEST_PAUSE_S = 0.05

T = TypeVar("T")


class Peer(NamedTuple):
    """A process of a group, by its rank among all."""

    rank: int
    process: Process

    def __str__(self) -> str:
        return f"rank {self.rank} (process {self.process.pid} on {self.process.host})"


def attempt(task: Callable[[], T]) -> tuple[T | None, Exception | None]:
    """What a task gives, or why it fails: the other processes, which wait, have to learn of it, whatever it is.

    The failure's traceback holds the caller's frame: who keeps both keeps what the frame holds, the group and its
    threads, beyond ``destroy_process_group()``. Callers delete the failure once it is told.
    """
    try:
        return task(), None
    except Exception as error:
        return None, error


def exchange(
    group: ProcessGroup,
    step: str,
    said: Any = None,
    error: Exception | str | None = None,
    kind: type[TkjitError] = LaunchError,
) -> list[Any]:
    """Tell all processes of a group something, and learn what they say, by their ranks in it.

    Parameters
    ----------
    step : str
        What this is for. One that comes too late is at another step than those that have given it up.
    error : Exception or str, optional
        Why this process has nothing to say. All processes raise it then, with this one's rank among all.
    kind : type
        What all of them raise for it.

    Raises
    ------
    LaunchError
        If a process ends, is at another step, or does not come within the timeout of the group's store.
    """
    board = _boards.get(group) or _boards.setdefault(group, _StoreExchange(group))
    problem = (str(error).split("\n", 1)[0] or type(error).__name__) if error else ""
    answers = board.exchange((step, kind, problem, said))
    for rank, (at, *_) in zip(board.ranks, answers, strict=True):
        if at != answers[0][0]:
            raise LaunchError(
                f"rank {rank} {at}, rank {board.ranks[0]} {answers[0][0]}: one of them came too late to a step before"
            )
    for rank, (_, of_kind, other, _) in zip(board.ranks, answers, strict=True):
        if other:
            raise of_kind(f"rank {rank}: {other}") from (error if isinstance(error, Exception) else None)
    return [answer for *_, answer in answers]


def who_has(who: Sequence[object], what: str) -> str:
    """A sentence of those who have done something: ``rank 1 and rank 2 have ended``; empty where there are none."""
    return f"{' and '.join(map(str, who))} {'has' if len(who) == 1 else 'have'} {what}" if who else ""


class _StoreExchange:
    """Where the processes of a group leave what they say: the group's store.

    Parameters
    ----------
    ranks : list of int
        The processes, by their ranks among all.
    """

    def __init__(self, group: ProcessGroup) -> None:
        import torch.distributed as dist

        self._store: Any = group.get_group_store()
        self._rank = group.rank()
        self.ranks = dist.get_process_group_ranks(group)
        self._number = 0
        self._marks = [f"tkjit/here/{rank}" for rank in range(len(self.ranks))]
        self._peers, self._name = self._meet(group)

    def exchange(self, said: Any) -> list[Any]:
        import pickle  # which torch has imported; it takes a millisecond

        self._number += 1
        keys, read = self._keys(self._number)
        try:
            self._store.set(keys[self._rank], pickle.dumps(said))
            self._wait_until(lambda: self._store.check(keys), lambda: self._absent(keys))
            answers = [pickle.loads(self._store.get(key)) for key in keys]
            if self._rank == 0:  # all have come here, and so none reads the one before any more
                before, read_before = self._keys(self._number - 1)
                for key in (*before, read_before) if self._number > 1 else self._marks:
                    self._store.delete_key(key)
            self._store.add(read, 1)
            if self.ranks[self._rank] == 0:  # which mostly keeps the store, and may end after this
                readers = len(keys)
                self._wait_until(lambda: self._store.add(read, 0) >= readers, lambda: "a process does not go on")
        except LaunchError:
            raise
        except RuntimeError as failure:  # of the store
            said_of_store = str(failure).split("\n", 1)[0]
            raise LaunchError(self._find_ended(DYING_S) or f"the group's store is lost: {said_of_store}") from failure
        return answers

    def _keys(self, number: int) -> tuple[list[str], str]:
        """Where each process leaves what it says, and where they count who has read it."""
        start = f"tkjit/{self._name}/{number}"
        return [f"{start}/{rank}" for rank in range(len(self.ranks))], f"{start}/read"

    def _meet(self, group: ProcessGroup) -> tuple[list[Peer], str]:
        """Learn which processes there are: by a collective, in which a backend notices one that is not there at all.

        They agree on a name too: a store may outlive a group, and serve another one of the same ranks.
        """
        import secrets

        import torch.distributed as dist

        known: list[Any] = [None] * len(self.ranks)
        try:
            self._store.set(self._marks[self._rank], "")
            dist.all_gather_object(known, (this_process(), secrets.token_hex(8)), group=group)
        except RuntimeError as failure:
            raise LaunchError(self._absent(self._marks) or str(failure).split("\n", 1)[0]) from failure
        return [Peer(rank, process) for rank, (process, _) in zip(self.ranks, known, strict=True)], known[0][1]

    def _absent(self, keys: Sequence[str]) -> str:
        """Who has left nothing; empty if all have."""
        try:
            away = [f"rank {rank}" for rank, key in zip(self.ranks, keys, strict=True) if not self._store.check([key])]
        except RuntimeError:
            return "a process of the group has ended, and with it the group's store, which rank 0 keeps"
        return who_has(away, "not come")

    def _wait_until(self, done: Callable[[], bool], why_not: Callable[[], str]) -> None:
        deadline = time.monotonic() + self._store.timeout.total_seconds()
        pause = LONGEST_PAUSE_S / 100
        while not done():
            ended = self._find_ended()
            if ended and not done():  # it may have come first
                raise LaunchError(ended)
            if time.monotonic() > deadline and not done():
                raise LaunchError(f"{why_not()}, in {self._store.timeout.total_seconds():.0f} s")
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def _find_ended(self, patience_s: float = 0) -> str:
        """Who of the processes that are known has ended; empty if none has."""
        deadline = time.monotonic() + patience_s
        while not (ended := [peer for peer in self._peers if not peer.process.is_alive]):
            if time.monotonic() >= deadline:
                return ""
            time.sleep(LONGEST_PAUSE_S)
        return who_has(ended, "ended")


_boards: WeakKeyDictionary[ProcessGroup, _StoreExchange] = WeakKeyDictionary()
