"""The process that talks with a server: starts it, asks it, and ends it when it has no answer in time."""

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
START_S = 20.0  # for the imports of a library; no server is asked yet
POLL_S = 0.05


class UnreachableError(Exception):
    """The server does not answer, or not what it should."""


class Patience:
    """The time that a server may take in all without an answer.

    Parameters
    ----------
    seconds : float
    check : callable
        Called while it waits; it may raise, as Ctrl-C does.
    """

    def __init__(self, seconds: float, check: Callable[[], None] = lambda: None) -> None:
        self.seconds = seconds
        self.check = check


class TransferProcess:
    """A process that moves objects from and to one server. It is started when it is needed, and again after a fork."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._process: subprocess.Popen[bytes] | None = None
        self._pending = 0  # answers that have not come yet; the first is to no request
        self._line = b""
        self._lock = ForkSafeLock()
        os.register_at_fork(after_in_child=self._forget)

    def ask(self, request: Mapping[str, Any], patience: Patience, growing: Path | None = None) -> dict[str, Any]:
        """Send a request, and wait for its answer.

        Parameters
        ----------
        growing : Path, optional
            The file that it writes: while that grows, the server answers.

        Raises
        ------
        UnreachableError
            If there is no answer in time, or it is the error ``failed``. The process is ended.
        CacheError
            If no installed package reads the URL.
        """
        with self._lock:
            try:
                answer = self._ask(request, patience, growing)
            except BrokenPipeError:  # it has just ended, since nobody had asked it anything for long
                self._end()
                try:
                    answer = self._ask(request, patience, growing)
                except BrokenPipeError:
                    raise UnreachableError("the process that asks it has ended") from None
            if answer.get("error") == "failed":
                raise UnreachableError(answer["text"])
            return answer

    def _ask(self, request: Mapping[str, Any], patience: Patience, growing: Path | None) -> dict[str, Any]:
        try:
            process = self._started()
            self._write(process, request)
            while self._pending > 1:
                greeting = self._answer(process, Patience(START_S, patience.check), None)
                if "error" in greeting:
                    raise CacheError(f"TKJIT_CACHE_REMOTE: {greeting['text']}")
            return self._answer(process, patience, growing)
        except BaseException:
            self._end()
            raise

    def send(self, request: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Send a request without waiting, and return the answers that have come to the earlier ones.

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
                raise UnreachableError("the process that asks it has ended") from None
            return self._answers(process, 0.0)

    def finish(self, seconds: float) -> list[dict[str, Any]]:
        """Wait for the answers to what was sent. What has none by then is still done by the process, on its own."""
        with self._lock:
            if self._process is None:
                return []
            with suppress(OSError):
                self._stdin(self._process).close()
            answers = self._answers(self._process, seconds)
            self._forget()
            return answers

    # ---- the process

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is not None:
            self._end()
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, str(SCRIPT), self._url],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            self._pending = 1
        return self._process

    def _write(self, process: subprocess.Popen[bytes], request: Mapping[str, Any]) -> None:
        stream = self._stdin(process)
        stream.write(json.dumps(request).encode() + b"\n")
        stream.flush()
        self._pending += 1

    def _answers(self, process: subprocess.Popen[bytes], seconds: float) -> list[dict[str, Any]]:
        found = []
        patience = Patience(seconds)
        while self._pending:
            try:
                found.append(self._answer(process, patience, None))
            except (UnreachableError, BrokenPipeError):
                break
        return found

    def _answer(self, process: subprocess.Popen[bytes], patience: Patience, growing: Path | None) -> dict[str, Any]:
        """The next line that the process says; the time that it takes is taken from the patience."""
        assert process.stdout is not None
        descriptor = process.stdout.fileno()
        size, left_s = -1, patience.seconds
        begun = time.monotonic()
        while b"\n" not in self._line:
            patience.check()
            ready, _, _ = select.select([descriptor], [], [], max(0.0, min(POLL_S, left_s)))
            if ready:
                if not (chunk := os.read(descriptor, 1 << 16)):
                    raise BrokenPipeError
                self._line += chunk
                continue
            now = _size_of(growing)
            if now > size:
                size, begun = now, time.monotonic()
            left_s = patience.seconds - (time.monotonic() - begun)
            if left_s <= 0:
                raise UnreachableError(f"no answer in {patience.seconds:.1f} s")
        if growing is None:
            patience.seconds = max(0.0, left_s)
        line, _, self._line = self._line.partition(b"\n")
        self._pending -= 1
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise UnreachableError("its answer cannot be read")
        return answer

    def _end(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._forget()

    def _forget(self) -> None:
        """Close this process's ends of the pipes: after a fork they are its parent's."""
        process, self._process, self._pending, self._line = self._process, None, 0, b""
        for stream in (process.stdin, process.stdout) if process else ():
            with suppress(OSError):
                if stream is not None:
                    stream.close()
        if process is not None and process.returncode is None:
            process.returncode = 0  # it goes on by itself, or is the parent's: nobody is to warn that it still runs

    @staticmethod
    def _stdin(process: subprocess.Popen[bytes]) -> Any:
        return process.stdin


def _size_of(path: Path | None) -> int:
    try:
        return path.stat().st_size if path else -1
    except OSError:
        return -1
