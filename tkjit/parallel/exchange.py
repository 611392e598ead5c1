"""Exchanges messages between the processes of a group, and reports which process fails, ends or is missing.

Messages go through the group's store and not through gloo collectives. A collective can hang after a process is killed,
because a child of the killed process, such as torch's shared memory manager, keeps the connections open.
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

DYING_S = 2.0  # a killed process may still look alive to others for this long
LONGEST_PAUSE_S = 0.05

T = TypeVar("T")


class Peer(NamedTuple):
    """A process in a group, with its global rank."""

    rank: int
    process: Process

    def __str__(self) -> str:
        return f"rank {self.rank} (process {self.process.pid} on {self.process.host})"


def attempt(task: Callable[[], T]) -> tuple[T | None, Exception | None]:
    """Run a task, and return its result or its exception, so that a failure can be reported to waiting processes.

    Callers have to delete the exception after the exchange, because its traceback refers to the caller's frame. The
    frame would keep the group and its threads alive after ``destroy_process_group()``.
    """
    try:
        return task(), None
    except Exception as error:
        return None, error


def exchange(
    group: ProcessGroup,
    step: str,
    message: Any = None,
    error: Exception | str | None = None,
    kind: type[TkjitError] = LaunchError,
) -> list[Any]:
    """Send a message to all processes of a group, and return everybody's messages, ordered by rank in the group.

    Parameters
    ----------
    step : str
        The purpose, as the predicate of a sentence about the process: ``"shares its part"``. The processes compare
        their steps, because a process that arrives late may find the others at a later step.
    message : object, optional
        Any object that pickle supports.
    error : Exception or str, optional
        Why this process has no message. All processes then raise this error, with this process's global rank.
    kind : type
        The type of the exception that all processes raise for ``error``.

    Raises
    ------
    LaunchError
        If a process ends, is at another step, or does not arrive within the timeout of the group's store.
    """
    board = _boards.get(group) or _boards.setdefault(group, _StoreExchange(group))
    problem = (str(error).split("\n", 1)[0] or type(error).__name__) if error else ""
    answers = board.exchange((step, kind, problem, message))
    for rank, (at, *_) in zip(board.ranks, answers, strict=True):
        if at != answers[0][0]:
            raise LaunchError(
                f"rank {rank} {at}, but rank {board.ranks[0]} {answers[0][0]}: one of them was late for an earlier step"
            )
    for rank, (_, of_kind, other, _) in zip(board.ranks, answers, strict=True):
        if other:
            raise of_kind(f"rank {rank}: {other}") from (error if isinstance(error, Exception) else None)
    return [answer for *_, answer in answers]


def who_has(who: Sequence[object], what: str) -> str:
    """Return a sentence such as ``rank 1 and rank 2 have ended``, or an empty string if ``who`` is empty."""
    return f"{' and '.join(map(str, who))} {'has' if len(who) == 1 else 'have'} {what}" if who else ""


class _StoreExchange:
    """Exchanges a group's messages through the group's store.

    Attributes
    ----------
    ranks : list of int
        The processes' global ranks.
    """

    def __init__(self, group: ProcessGroup) -> None:
        import torch.distributed as dist

        self._store: Any = group.get_group_store()
        self._rank = group.rank()
        self.ranks = dist.get_process_group_ranks(group)
        self._number = 0
        self._marks = [f"tkjit/here/{rank}" for rank in range(len(self.ranks))]
        self._peers, self._name = self._meet(group)

    def exchange(self, message: Any) -> list[Any]:
        import pickle  # importing it takes a millisecond, but torch has done so already

        self._number += 1
        keys, read = self._keys(self._number)
        try:
            self._store.set(keys[self._rank], pickle.dumps(message))
            self._wait_until(lambda: self._store.check(keys), lambda: self._absent(keys))
            answers = [pickle.loads(self._store.get(key)) for key in keys]
            if self._rank == 0:  # all have arrived, so nobody is still reading the previous exchange
                before, read_before = self._keys(self._number - 1)
                for key in (*before, read_before) if self._number > 1 else self._marks:
                    self._store.delete_key(key)
            self._store.add(read, 1)
            if self.ranks[self._rank] == 0:  # usually hosts the store, so it stays until all have read
                readers = len(keys)
                self._wait_until(lambda: self._store.add(read, 0) >= readers, lambda: "a process has not continued")
        except LaunchError:
            raise
        except RuntimeError as failure:  # raised by the store
            reason = str(failure).split("\n", 1)[0]
            raise LaunchError(self._find_ended(DYING_S) or f"the group's store is lost: {reason}") from failure
        return answers

    def _keys(self, number: int) -> tuple[list[str], str]:
        """Return the keys of the processes' messages, and the key that counts how many processes have read them."""
        start = f"tkjit/{self._name}/{number}"
        return [f"{start}/{rank}" for rank in range(len(self.ranks))], f"{start}/read"

    def _meet(self, group: ProcessGroup) -> tuple[list[Peer], str]:
        """Find the group's processes with a collective, because the backend then reports a missing process.

        The processes also agree on a name, because a store may outlive its group and serve another group with the same
        ranks.
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
        """Describe which processes have not written their keys. The string is empty if all have."""
        try:
            away = [f"rank {rank}" for rank, key in zip(self.ranks, keys, strict=True) if not self._store.check([key])]
        except RuntimeError:
            return "a process of the group has ended, and with it the group's store, which rank 0 hosts"
        return who_has(away, "not arrived")

    def _wait_until(self, done: Callable[[], bool], why_not: Callable[[], str]) -> None:
        deadline = time.monotonic() + self._store.timeout.total_seconds()
        pause = LONGEST_PAUSE_S / 100
        while not done():
            ended = self._find_ended()
            if ended and not done():  # a process may have arrived before it ended
                raise LaunchError(ended)
            if time.monotonic() > deadline and not done():
                raise LaunchError(f"{why_not()} within {self._store.timeout.total_seconds():.0f} s")
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def _find_ended(self, patience_s: float = 0) -> str:
        """Describe which of the known processes have ended. The string is empty if none has."""
        deadline = time.monotonic() + patience_s
        while not (ended := [peer for peer in self._peers if not peer.process.is_alive]):
            if time.monotonic() >= deadline:
                return ""
            time.sleep(LONGEST_PAUSE_S)
        return who_has(ended, "ended")


_boards: WeakKeyDictionary[ProcessGroup, _StoreExchange] = WeakKeyDictionary()
