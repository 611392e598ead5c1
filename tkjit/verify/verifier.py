"""``verify``: a process for each kernel, which is watched, and what came of its calls."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import IO, Any

from tkjit.errors import SpecError
from tkjit.system.machine import usable_cores
from tkjit.verify.call import Outcome
from tkjit.verify.task import BEGIN, END, Task

DEVICES = ("cpu", "cuda")
LATE = "late"
SECONDS_BETWEEN = 120.0  # to start Python, and to make up a call
SECONDS_TO_END = 5.0  # of a process that has said all
_TAIL = 500  # characters of what a process said before it crashed


@dataclass(frozen=True)
class Options:
    """How to verify.

    Parameters
    ----------
    device : {"cpu", "cuda"}
    types : sequence of str
        Only variants of these dtypes; empty for all.
    given : mapping
        Extents of dims, values of numbers, and variants that the caller has chosen.
    seed : int
        Of the inputs' values.
    timeout_s : float
        For each call, what it compiles included.
    """

    device: str = "cpu"
    types: Sequence[str] = ()
    given: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    timeout_s: float = 600.0

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise SpecError(f"device={self.device!r} is not known; expected {' or '.join(DEVICES)}")


def verify(kernels: Sequence[str], options: Options) -> Iterator[Outcome]:
    """What came of the calls of kernels, each kernel in a process of its own; in the order in which calls end.

    On the CPU as many kernels at once as there are cores, on a GPU one.

    Raises
    ------
    SpecError
        If the device is a GPU, and there is none.
    """
    if options.device == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise SpecError("there is no GPU here; --device cpu runs kernels in the simulator")
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    with ThreadPoolExecutor(usable_cores() if options.device == "cpu" else 1) as pool:
        pending: set[Future[None]] = {pool.submit(_verify_one, name, options, outcomes) for name in kernels}
        try:
            while pending:
                done, pending = wait(pending, timeout=0.1, return_when=FIRST_COMPLETED)
                while not outcomes.empty():
                    yield outcomes.get()
                for each in done:
                    each.result()
        finally:
            for each in pending:
                each.cancel()


def _verify_one(kernel: str, options: Options, outcomes: SimpleQueue[Outcome]) -> None:
    """One kernel's calls; those behind one that ends its process in another."""
    task = Task(kernel, options.device, list(options.types), dict(options.given), options.seed)
    while (made := _run(task, options.timeout_s, outcomes)) is not None:
        task = replace(task, skipped=task.skipped + made)


def _run(task: Task, timeout_s: float, outcomes: SimpleQueue[Outcome]) -> int | None:
    """Run a process to its end; None, or how many calls it has made where the last one ended it."""
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "tkjit.verify.child", str(writer)]
    last, begun, ended, in_time = Outcome(task.kernel), 0, 0, True
    with tempfile.TemporaryFile() as said, os.fdopen(reader, "rb", buffering=0) as events:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=said, stderr=said, pass_fds=[writer])
        os.close(writer)
        try:
            assert child.stdin is not None
            with child.stdin as stdin:
                stdin.write(task.as_json().encode())
            for kind, outcome in _events(events, timeout_s):
                in_time = kind != LATE
                if not in_time:
                    break
                begun, ended, last = begun + (kind == BEGIN), ended + (kind == END), outcome
                if kind != BEGIN:
                    outcomes.put(outcome)
        finally:
            if not in_time or not _ends_soon(child):
                child.kill()
            status = child.wait()
        if status:
            outcomes.put(replace(last, problems=(_ending(status, in_time, timeout_s, said),)))
        return begun if status and begun > ended else None


def _ends_soon(child: subprocess.Popen[bytes]) -> bool:
    try:
        child.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        return False
    return True


def _events(pipe: IO[bytes], timeout_s: float) -> Iterator[tuple[str, Outcome]]:
    """The lines of a process until it ends; ``LATE`` where nothing comes for too long."""
    rest = b""
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
            *lines, rest = (rest + read).split(b"\n")
            for line in lines:
                content = json.loads(line)
                kind = content.pop("event")
                yield kind, Outcome(**{**content, "problems": tuple(content["problems"])})
            in_a_call = bool(lines) and kind == BEGIN
            deadline = time.monotonic() + timeout_s + (0 if in_a_call else SECONDS_BETWEEN)


def _ending(status: int, in_time: bool, timeout_s: float, said: IO[bytes]) -> str:
    """In words how a process ended that did not end its call."""
    if not in_time:
        return f"it did not end within {timeout_s:.0f} s"
    end = f"its process ended with {f'signal {-status}' if status < 0 else f'status {status}'}"
    said.seek(0)
    words = said.read().decode(errors="replace").strip()
    return f"{end}: {words[-_TAIL:]}" if words else end
