"""Compiles with NVRTC in server processes, which keep the library loaded and warm.

A server compiles one source at a time, so compilations in parallel use several servers. A crash, a limit or Ctrl-C ends
the server, and the next compilation starts another one. ``nvrtc_child.py`` is the server's side.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from tkjit.compile.nvrtc import CHILD
from tkjit.config import environment_with
from tkjit.system.fork_safe import ForkSafeLock
from tkjit.system.start_time import start_time

_MOST_IDLE = 4  # each idle server uses 22 MB

_idle: list[Server] = []
_lock = ForkSafeLock()


class Server:
    """A server for one library. It ends when the process that started it, and all forks of that process, have ended."""

    def __init__(self, library: str) -> None:
        self.library = library
        self.owner = os.getpid()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-I", "-S", str(CHILD), "serve", library]
        with theirs, Path(os.devnull).open("r+b") as nothing:
            streams = theirs.fileno(), nothing.fileno(), nothing.fileno()
            actions = [(os.POSIX_SPAWN_DUP2, stream, number) for number, stream in enumerate(streams)]
            self.pid = os.posix_spawn(sys.executable, command, environment_with(), file_actions=actions)
        self._started = start_time(self.pid)

    def run(
        self, arguments: list[str], directory: Path, variables: Mapping[str, str], log: IO[bytes]
    ) -> tuple[int, int] | None:
        """Compile. Return the exit status and the peak memory in bytes, or None if the server has ended.

        Parameters
        ----------
        arguments : list of str
            The arguments of ``nvrtc_child.py``.
        directory : Path
            The working directory of the compilation.
        variables : mapping
            Its environment variables.
        log : file
            Gets its output.
        """
        request = {"arguments": arguments, "directory": str(directory), "environment": dict(variables)}
        # the request is a file, because a message has a size limit that an environment can exceed
        with os.fdopen(os.memfd_create("request"), "w+") as file:
            json.dump(request, file)
            file.seek(0)
            try:
                socket.send_fds(self._socket, [b"\0"], [file.fileno(), log.fileno()])
                answer = self._socket.recv(64)
            except OSError:
                return None
        if not answer:
            return None
        status, peak_kib = answer.split()
        return int(status), int(peak_kib) << 10

    def end(self) -> int:
        """End the server if it has not ended, and return the exit status of its process."""
        self._socket.close()
        if self.owner != os.getpid():
            return 0
        if start_time(self.pid) == self._started:  # the program may have ignored SIGCHLD, and the pid belong to another
            os.kill(self.pid, signal.SIGKILL)
        try:
            _, status = os.waitpid(self.pid, 0)
        except ChildProcessError:  # somebody else has waited for it
            return 0
        return os.waitstatus_to_exitcode(status)


def start(library: str) -> None:
    """Start a server for a compilation to come, unless an idle one has this library."""
    with _lock:
        if any(server.library == library and server.owner == os.getpid() for server in _idle):
            return
    _give_back(Server(library))


def run(command: list[str], directory: Path, variables: Mapping[str, str], log: IO[bytes]) -> tuple[int, int] | None:
    """Run a command line of ``Nvrtc.command`` in an idle server, or in a new one.

    Returns the exit status, which is negative if a signal has killed the new server, and the peak memory in bytes.
    Returns None if no server works.
    """
    arguments = command[command.index(str(CHILD)) + 1 :]
    idle = _take(arguments[1])
    if idle is not None:
        answer = _run_in(idle, arguments, directory, variables, log)
        if isinstance(answer, tuple):
            return answer
        log.seek(0)
        log.truncate()
    answer = _run_in(Server(arguments[1]), arguments, directory, variables, log)
    if isinstance(answer, tuple):
        return answer
    return (answer, 0) if answer < 0 else None


def _run_in(
    server: Server, arguments: list[str], directory: Path, variables: Mapping[str, str], log: IO[bytes]
) -> tuple[int, int] | int:
    """Compile, and keep the server for the next compilation. If it has ended, return its own exit status."""
    answer = None
    try:
        answer = server.run(arguments, directory, variables, log)
    finally:
        if answer is not None:
            _give_back(server)
        else:
            status = server.end()  # also after Ctrl-C, because it may still be compiling
    return status if answer is None else answer


def _take(library: str) -> Server | None:
    with _lock:
        for server in [one for one in _idle if one.owner != os.getpid()]:  # of the process that has forked this one
            _idle.remove(server)
            server.end()
        for server in _idle:
            if server.library == library:
                _idle.remove(server)
                return server
    return None


@atexit.register  # this module is imported for the first compilation with NVRTC
def _end_idle() -> None:
    with _lock:
        while _idle:
            _idle.pop().end()


def _give_back(server: Server) -> None:
    with _lock:
        if len(_idle) < _MOST_IDLE:
            _idle.append(server)
            return
    server.end()
