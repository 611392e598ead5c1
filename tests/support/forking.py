"""Starts test processes quickly, by forking a server that has already imported torch and most of tkjit.

As a script, this file is the server. It reads a JSON line for each request: run code in a new process, or return a
process's exit status.
"""

from __future__ import annotations

import faulthandler
import io
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

POLL_S = 0.01
WHERE_ARE_YOU = signal.SIGUSR2  # makes a process write the stacks of its threads to standard error


class Child:
    """A process that runs some code. Its output goes to files, because its orphans could hold a pipe open."""

    def __init__(self, server: Server, pid: int, output: Path) -> None:
        self.pid = pid
        self.code: int | None = None
        self._server = server
        self._output = output

    @property
    def stdout(self) -> str:
        return self._output.with_suffix(".out").read_text()

    @property
    def stderr(self) -> str:
        """What the process wrote to standard error; empty if it goes to standard output."""
        return self._output.with_suffix(".err").read_text()

    @property
    def is_running(self) -> bool:
        if self.code is None:
            self.code = self._server.ask({"ended": self.pid})
        return self.code is None

    def wait(self, timeout_s: float = 120) -> Child:
        """Wait for the end of the process. After the timeout, print its stacks, kill it and fail the test."""
        deadline = time.monotonic() + timeout_s
        while self.is_running:
            if time.monotonic() > deadline:
                self.signal(WHERE_ARE_YOU)
                time.sleep(0.5)
                self.signal(signal.SIGKILL)
                output = self.stdout + self.stderr
                raise AssertionError(f"process {self.pid} did not end within {timeout_s:.0f} s\n{output}")
            time.sleep(POLL_S)
        return self

    def printed(self, timeout_s: float = 120) -> str:
        """Wait for the process to succeed, and return its output."""
        self.wait(timeout_s)
        assert self.code == 0, f"the process ended with {self.code}\n{self.stdout}{self.stderr}"
        return self.stdout

    def signal(self, number: int) -> None:
        if self.is_running:
            os.kill(self.pid, number)


class Server:
    """Starts processes, each in its own session and with the current environment."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._children: list[Child] = []
        command = [sys.executable, __file__]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None and self._process.stdout.readline() == "ready\n"

    def start(
        self, code: str, *arguments: object, directory: Path | None = None, merged: bool = False, **environ: str
    ) -> Child:
        """Run code in a fresh process, with some environment variables changed.

        Parameters
        ----------
        directory : Path, optional
            The working directory; the test's by default.
        merged : bool
            Whether standard error goes to standard output, as on a terminal.
        """
        output = self._directory / str(len(self._children))
        for end in (".out", ".err"):
            output.with_suffix(end).touch()
        request = {
            "code": code,
            "arguments": list(map(str, arguments)),
            "environ": {**os.environ, **environ},
            "directory": str(directory or Path.cwd()),
            "output": str(output),
            "merged": merged,
        }
        self._children.append(Child(self, int(self.ask(request)), output))
        return self._children[-1]

    def run(self, code: str, *arguments: object, **environ: str) -> str:
        """Run code in a fresh process, and return its output."""
        return self.start(code, *arguments, **environ).printed()

    def tkjit(self, *arguments: object, before: str = "", **environ: str) -> Child:
        """Run ``python -m tkjit`` in a fresh process, after some other code."""
        code = f"{before}\nimport sys\nfrom tkjit.cli import main\nsys.exit(main(sys.argv[1:]))"
        return self.start(code, *arguments, **environ).wait()

    def ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        for child in self._children:
            child.signal(signal.SIGKILL)  # only failed tests leave running children
        self._process.communicate(timeout=60)


def _serve() -> None:
    import tkjit.cli
    import tkjit.kernel_objects.loading
    import tkjit.loader  # noqa: F401

    sys.path[0] = ""  # as for `python -c`

    requests, replies = sys.stdin, sys.stdout
    print("ready", file=replies, flush=True)
    for line in requests:
        request = json.loads(line)
        if "ended" in request:
            pid, status = os.waitpid(request["ended"], os.WNOHANG)
            reply = os.waitstatus_to_exitcode(status) if pid else None
        else:
            # blocked until the child is ready, because a test may send Ctrl-C immediately
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            if (reply := os.fork()) == 0:
                _run(request)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        print(json.dumps(reply), file=replies, flush=True)


def _writer(descriptor: int) -> io.TextIOWrapper:
    """Open a descriptor for writing, without a buffer if ``PYTHONUNBUFFERED`` is set."""
    if os.environ.get("PYTHONUNBUFFERED"):
        return io.TextIOWrapper(open(descriptor, "wb", 0), write_through=True)
    return open(descriptor, "w")


def _run(request: dict[str, Any]) -> NoReturn:
    status = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(request["environ"])
        os.chdir(request["directory"])
        for stream, name in ((0, os.devnull), (1, request["output"] + ".out"), (2, request["output"] + ".err")):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644), stream)
        if request["merged"]:
            os.dup2(1, 2)
        sys.stdin, sys.stdout, sys.stderr = open(0), _writer(1), open(2, "w", buffering=1)  # noqa: SIM115
        faulthandler.register(WHERE_ARE_YOU, sys.stderr)
        sys.argv = ["-c", *request["arguments"]]
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        exec(compile(request["code"], "<code>", "exec"), {"__name__": "__main__"})
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        if status == 1 and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    _serve()
