"""When a process started: with its number, what tells it from all others. The watchdog imports this file alone."""


def start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since the boot; None if there is none, or it has ended and is a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # the name in brackets may hold anything; behind it stand the state and 19 more numbers
            state, *numbers = file.read().rpartition(b")")[2].split()
    except (OSError, ValueError):
        return None
    return None if state in (b"Z", b"X") else int(numbers[18])
