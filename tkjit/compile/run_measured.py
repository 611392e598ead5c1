"""A script that runs a compiler and reports its exit status and peak memory.

A child's ``ru_maxrss`` starts at its parent's value, which is 300 MiB in a process with torch. Here the compiler is a
child of this small process, so the reported memory is the compiler's: ``python run_measured.py DESCRIPTOR COMMAND...``.
"""

# The module signal would import enum, which would take half of this script's time.
import _signal  # type: ignore[import-not-found]
import os
import sys

COULD_NOT_RUN = "could not run: "


def measure(report: int, command: list[str]) -> None:
    """Run a command. Write its exit status and peak memory in KiB to a descriptor, or the reason why it did not run."""
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        try:
            os.execv(command[0], command)
        except OSError as error:
            os.write(report, f"{COULD_NOT_RUN}{error.strerror}".encode())
        os._exit(127)
    _, status, usage = os.wait4(child, 0)
    if not os.fstat(report).st_size:  # otherwise the child has written why it did not run
        os.write(report, f"{os.waitstatus_to_exitcode(status)} {usage.ru_maxrss}".encode())


if __name__ == "__main__":
    os.set_inheritable(int(sys.argv[1]), False)  # the compiler does not need the descriptor
    measure(int(sys.argv[1]), sys.argv[2:])
