"""Runs a program that dies together with the process that started it, even if that process is killed by SIGKILL.

The process starts this file as a script. The script asks Linux to send it a signal when its parent dies, and then
becomes the program. It runs without site-packages, so it imports only the standard library. A ``preexec_fn`` could ask
Linux as well, but it would run Python code in a forked copy of a process that may have had threads.
"""

import os
import signal
import sys
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1  # from linux/prctl.h


def dying_with_parent(command: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return a command line that runs a program which dies together with this process.

    The thread that starts the program must live as long as the program does, because Linux sends the signal when this
    thread ends. If the program cannot be run, the command prints a line to standard error and ends with status 126 or
    127, as in a shell.
    """
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *(os.fspath(word) for word in command)]


def _become(parent: int, command: list[str]) -> None:
    """Replace this process by a program that dies with its parent."""
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != parent:  # the parent died before prctl was called
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C prints no traceback from here on
    # Python ignores these signals, and the program would inherit this setting
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"tkjit: {command[0]} does not run: {error.strerror}", file=sys.stderr)
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2:])
