"""``verify``: runs each kernel in a process with a time limit, and collects the outcomes of its calls."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import IO, Any

from tkjit.check.child_process import MAX_STDERR_BYTES, ending_of
from tkjit.errors import SpecError
from tkjit.system.die_with_parent import dying_with_parent
from tkjit.system.machine import available_memory_bytes, usable_cores
from tkjit.verify.call import Outcome
from tkjit.verify.task import BEGIN, END, Task

DEVICES = ("cpu", "cuda")
_MOST_PROCESSES = 8
LATE = "late"
SECONDS_BETWEEN = 120.0  # time allowed between calls, to start Python and to generate the arguments
SECONDS_TO_END = 5.0  # time allowed for a process to exit after its last message


@dataclass(frozen=True)
class Options:
    """The options of ``verify``.

    Parameters
    ----------
    device : {"cpu", "cuda"}
    types : sequence of str
        Verify only variants of these dtypes; empty for all variants.
    given : mapping
        Extents of dims, values of numbers, and variants that the caller has chosen.
    seed : int
        The seed of the inputs' values.
    timeout_s : float
        The time limit of each call, including its compilation.
    """

    device: str = "cpu"
    types: Sequence[str] = ()
    given: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    timeout_s: float = 600.0

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise SpecError(f"device={self.device!r} is not known; expected {' or '.join(DEVICES)}")
        if not 0 < self.timeout_s < float("inf"):
            raise SpecError(f"timeout is {self.timeout_s} s; expected a finite number above 0")


def verify(kernels: Sequence[str], options: Options) -> Iterator[Outcome]:
    """Verify kernels, each in a separate process, and yield the outcomes of their calls as they end.

    On the CPU, several kernels run at the same time, up to one per core; on a GPU, they run one after another.

    Raises
    ------
    SpecError
        If the device is a GPU, but there is none.
    """
    if options.device == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise SpecError("there is no GPU here; --device cpu runs kernels in the simulator")
    processes = _Processes(options)
    pool = ThreadPoolExecutor(_how_many_at_once() if options.device == "cpu" else 1)
    try:
        pending: set[Future[None]] = {pool.submit(processes.verify, name) for name in kernels}
        while pending:
            done, pending = wait(pending, timeout=0.1, return_when=FIRST_COMPLETED)
            while not processes.outcomes.empty():
                yield processes.outcomes.get()
            for each in done:
                each.result()
    finally:  # also on Ctrl-C, and if the caller stops iterating
        processes.stop()
        pool.shutdown(wait=True, cancel_futures=True)


def _how_many_at_once() -> int:
    """Return the number of processes: one per core, if each has 2 GiB of memory for torch and the kernel's tensors."""
    return max(1, min(usable_cores(), available_memory_bytes() // (2 << 30), _MOST_PROCESSES))


class _Processes:
    """The processes of all kernels, which can be stopped together."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self._lock = threading.Lock()
        self._children: set[subprocess.Popen[bytes]] = set()
        self._is_stopped = False

    def verify(self, kernel: str) -> None:
        """Make one kernel's calls; if a call ends its process, another process makes the remaining calls."""
        options = self._options
        task = Task(kernel, options.device, list(options.types), dict(options.given), options.seed)
        while (calls_made := self._run(task)) is not None:
            task = replace(task, skipped=task.skipped + calls_made)

    def stop(self) -> None:
        """Kill all processes, and the compilers that they have started."""
        with self._lock:
            self._is_stopped = True
            for child in self._children:
                if child.poll() is None:
                    _kill(child)

    def _start(self, descriptor: int, output: IO[bytes]) -> subprocess.Popen[bytes] | None:
        command = dying_with_parent([sys.executable, "-m", "tkjit.verify.child", str(descriptor)])
        with self._lock:
            if self._is_stopped:
                return None
            # in its own process group, so that it can be killed together with its compilers
            child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=[descriptor],
                start_new_session=True,
            )
            self._children.add(child)
            return child

    def _run(self, task: Task) -> int | None:
        """Run a process until it ends. If a call ended it, return how many calls it has begun, otherwise None."""
        reader, writer = os.pipe()
        last, begun, ended, in_time = Outcome(task.kernel), 0, 0, True
        with tempfile.TemporaryFile() as output, os.fdopen(reader, "rb", buffering=0) as events:
            child = self._start(writer, output)
            os.close(writer)
            if child is None:
                return None
            try:
                assert child.stdin is not None
                with suppress(BrokenPipeError), child.stdin as stdin:  # the child may have ended already
                    stdin.write(task.as_json().encode())
                for kind, outcome in _events(events, self._options.timeout_s):
                    in_time = kind != LATE
                    if not in_time:
                        break
                    begun, ended, last = begun + (kind == BEGIN), ended + (kind == END), outcome
                    if kind != BEGIN:
                        self.outcomes.put(outcome)
            finally:
                status = _ends_soon(child) if in_time else None
                if status is None:
                    _kill(child)
                    child.wait()
                with self._lock:
                    self._children.discard(child)
            in_a_call = begun > ended
            if self._is_stopped or (in_time and not status):
                return None
            failed_call = last if in_a_call else Outcome(task.kernel)
            output.seek(0)
            problem = ending_of("its process", status, self._options.timeout_s, output.read()[-MAX_STDERR_BYTES:])
            self.outcomes.put(replace(failed_call, problems=(problem,)))
            return begun if in_a_call else None


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Kill a process and its process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def _ends_soon(child: subprocess.Popen[bytes]) -> int | None:
    """Return the status of a process after its last message, or None if the process does not exit in time."""
    try:
        return child.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        return None


def _events(pipe: IO[bytes], timeout_s: float) -> Iterator[tuple[str, Outcome]]:
    """Yield a process's events until it ends, or ``LATE`` if no event comes for too long."""
    incomplete = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        deadline = time.monotonic() + timeout_s + SECONDS_BETWEEN
        while True:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                yield LATE, Outcome("")
                return
            read = pipe.read(1 << 16)
            if not read:
                return
            *lines, incomplete = (incomplete + read).split(b"\n")
            for line in lines:
                content = json.loads(line)
                kind = content.pop("event")
                yield kind, Outcome(**{**content, "problems": tuple(content["problems"])})
            in_a_call = bool(lines) and kind == BEGIN
            deadline = time.monotonic() + timeout_s + (0 if in_a_call else SECONDS_BETWEEN)
