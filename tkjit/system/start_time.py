"""Reads when a process started, which with its pid identifies it. The watchdog starts by importing only this file."""


def start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot, or None if it does not exist or is a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # the name in brackets may contain anything; after it come the state and the numbers
            state, *numbers = file.read().rpartition(b")")[2].split()
    except (OSError, ValueError):
        return None
    return None if state in (b"Z", b"X") else int(numbers[18])
