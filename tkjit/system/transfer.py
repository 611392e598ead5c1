"""Starts a process that talks to a server, sends requests to the process, and ends it if it does not answer in time."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tkjit.errors import CacheError
from tkjit.system.fork_safe import ForkSafeLock

SCRIPT = Path(__file__).with_name("transfer_process.py")
START_S = 20.0  # the time allowed for importing a library, before any server is contacted
POLL_S = 0.05
MAX_ANSWER_BYTES = 4 << 20


class UnreachableError(Exception):
    """The server does not answer, or gives an invalid answer."""


class Patience:
    """A common time limit for several answers from a server: waiting for each answer uses up a part of it.

    Parameters
    ----------
    seconds : float
    check : callable
        Called while waiting. It may raise an exception to stop waiting, as Ctrl-C does.
    """

    def __init__(self, seconds: float, check: Callable[[], None] = lambda: None) -> None:
        self.seconds = seconds
        self.check = check


class Growing:
    """A file that is being downloaded. While it changes, the server counts as answering.

    Parameters
    ----------
    longest_s : float
        The time limit for the whole download.
    """

    def __init__(self, path: Path, longest_s: float) -> None:
        self._path = path
        self._until = time.monotonic() + longest_s
        self._state: tuple[int, ...] = ()

    def has_changed(self) -> bool:
        """Return whether the file has changed since the last call and the download still has time left."""
        with suppress(OSError):
            status = self._path.stat()
            state = (status.st_size, status.st_blocks, status.st_mtime_ns)
            before, self._state = self._state, state
            return state != before and time.monotonic() < self._until
        return False


class TransferProcess:
    """A process that moves objects to and from one server. It is started on demand, and started anew after a fork."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._process: subprocess.Popen[bytes] | None = None
        self._pending = 0  # how many answers are outstanding, including the process's greeting
        self._input = b""  # the part of an incomplete answer that has arrived
        self._late: list[dict[str, Any]] = []  # answers to `send` that `finish` will return
        self._lock = ForkSafeLock()
        os.register_at_fork(after_in_child=self._forget)

    def ask(self, request: Mapping[str, Any], patience: Patience, growing: Growing | None = None) -> dict[str, Any]:
        """Send a request and wait for its answer.

        Raises
        ------
        UnreachableError
            If there is no answer in time, or the answer is the error ``failed``. In both cases the process is ended.
        CacheError
            If no installed package can read the URL.
        """
        with self._lock:
            try:
                answer = self._ask(request, patience, growing)
            except BrokenPipeError:  # the process has just ended because it was idle
                try:
                    answer = self._ask(request, patience, growing)
                except BrokenPipeError:
                    raise UnreachableError("the process that talks to it has ended") from None
            if answer.get("error") == "failed":
                self._end()
                raise UnreachableError(answer["text"])
            return answer

    def _ask(self, request: Mapping[str, Any], patience: Patience, growing: Growing | None) -> dict[str, Any]:
        try:
            process = self._started()
            self._write(process, request)
            while self._pending > 1:
                greeting = self._answer(process, Patience(START_S, patience.check), None)
                if greeting.get("error") == "unusable":
                    raise CacheError(f"TKJIT_CACHE_REMOTE: {greeting['text']}")
            return self._answer(process, patience, growing)
        except BaseException:
            self._end()
            raise

    def send(self, request: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Send a request without waiting. Return the answers to earlier requests that have arrived.

        Raises
        ------
        UnreachableError
            If the process has ended.
        """
        with self._lock:
            try:
                process = self._started()
                self._write(process, request)
            except BrokenPipeError:
                self._end()
                raise UnreachableError("the process that talks to it has ended") from None
            except BaseException:  # after Ctrl-C, half of a request may be in the pipe
                self._end()
                raise
            return self._answers(process, 0.0)

    def finish(self, seconds: float) -> tuple[list[dict[str, Any]], int]:
        """Wait for the answers to ``send``, and let the process end.

        Returns
        -------
        list of dict, int
            The answers, and how many answers are missing. The process still completes the requests that have no answer.
        """
        with self._lock:
            answers, self._late = self._late, []
            left = 0
            if self._process is not None:
                with suppress(OSError):
                    self._process.stdin.close()  # type: ignore[union-attr]
                answers += self._answers(self._process, seconds)
                left = self._pending
                self._forget()
            return answers, left

    # ---- the process

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is not None:
            self._late += self._answers(self._process, 0.0)
            self._end()
        if self._process is None:
            # unbuffered, because a forked child closes the pipes, possibly while another thread is writing to one
            self._process = subprocess.Popen(
                [sys.executable, str(SCRIPT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                bufsize=0,
            )
            self._pending = 1
            # pass the URL through the pipe, because every user of the machine can read a process's arguments
            self._write_line(self._process, self._url)
        return self._process

    def _write(self, process: subprocess.Popen[bytes], request: Mapping[str, Any]) -> None:
        self._write_line(process, json.dumps(request))
        self._pending += 1

    @staticmethod
    def _write_line(process: subprocess.Popen[bytes], line: str) -> None:
        assert process.stdin is not None
        left = memoryview(line.encode() + b"\n")
        while left:
            left = left[os.write(process.stdin.fileno(), left) :]

    def _answers(self, process: subprocess.Popen[bytes], seconds: float) -> list[dict[str, Any]]:
        found = []
        patience = Patience(seconds)
        while self._pending:
            try:
                found.append(self._answer(process, patience, None))
            except (UnreachableError, BrokenPipeError):
                break
        return found

    def _answer(self, process: subprocess.Popen[bytes], patience: Patience, growing: Growing | None) -> dict[str, Any]:
        """Return the process's next answer, and subtract the time that it takes from the patience."""
        begun = time.monotonic()
        while b"\n" not in self._input:
            patience.check()
            left_s = patience.seconds - (time.monotonic() - begun)
            chunk = self._read(process, max(0.0, min(POLL_S, left_s)))
            if chunk:
                self._input += chunk
            elif growing is not None and growing.has_changed():
                begun = time.monotonic()
            elif left_s <= 0:
                raise UnreachableError(f"no answer in {patience.seconds:.1f} s")
            if len(self._input) > MAX_ANSWER_BYTES:
                raise UnreachableError("its answer is too long")
        if growing is None:
            patience.seconds = max(0.0, patience.seconds - (time.monotonic() - begun))
        line, _, self._input = self._input.partition(b"\n")
        self._pending -= 1
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise UnreachableError("its answer cannot be read")
        return answer

    @staticmethod
    def _read(process: subprocess.Popen[bytes], seconds: float) -> bytes:
        """Wait for output of the process for at most ``seconds``, and return it.

        Raises
        ------
        BrokenPipeError
            If the process has ended.
        """
        assert process.stdout is not None
        poll = select.poll()  # not `select.select`, which does not accept descriptors above 1023
        poll.register(process.stdout.fileno(), select.POLLIN)
        if not poll.poll(seconds * 1000):
            return b""
        if not (chunk := os.read(process.stdout.fileno(), 1 << 16)):
            raise BrokenPipeError
        return chunk

    def _end(self) -> None:
        """Kill the process, whatever it is doing."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._forget()

    def _forget(self) -> None:
        """Close this side's ends of the pipes. In a forked child, the process belongs to the parent."""
        process, self._process, self._pending, self._input = self._process, None, 0, b""
        for stream in (process.stdin, process.stdout) if process else ():
            with suppress(OSError):
                if stream is not None:
                    stream.close()
        if process is not None and process.returncode is None:
            process.returncode = 0  # keeps Popen from warning: the process may run on, or is the parent's
