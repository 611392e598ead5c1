"""Reads when a process started. The start time and the pid together identify a process.

This is a separate file because the watchdog imports nothing else of tkjit until a builder has been killed.
"""


def start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot. Return None for a zombie or if there is no process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # the process's name, in parentheses, may contain anything; the state and the numbers come after it
            state, *numbers = file.read().rpartition(b")")[2].split()
    except (OSError, ValueError):
        return None
    return None if state in (b"Z", b"X") else int(numbers[18])
