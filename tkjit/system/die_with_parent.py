"""Runs a program that dies with the process that started it, even if SIGKILL ends that process.

This file is also the script between the two: it asks the kernel for the signal and then becomes the program. It
runs without site-packages, so it imports only the standard library. A ``preexec_fn`` could do the same, but it runs
Python code in a forked copy of a process that may have had threads.
"""

import os
import signal
import sys
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def dying_with_parent(command: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return the command line of a program that dies with this process.

    The thread that starts the program must live as long as the program does. A program that cannot be run ends with
    status 126 or 127, as in a shell, and a line on standard error.
    """
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *(os.fspath(word) for word in command)]


def _become(parent: int, command: list[str]) -> None:
    """Replace this process by a program."""
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != parent:  # the parent died before the call of prctl
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C prints no traceback from here on
    # Python ignores these signals, and the program would inherit that
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"tkjit: {command[0]} does not run: {error.strerror}", file=sys.stderr)
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2:])
