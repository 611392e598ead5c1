"""Fake holders of build locks: running, ended, or on another host."""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path

from tkjit.system.process import Process, this_machine, this_process


def hold_lock_as(path: Path, process: Process | None = None, since: float = 0.0, staging: str = "") -> int:
    """Take a lock on behalf of a process, and return its file descriptor, which the caller closes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    content = {"process": (process or this_process())._asdict(), "kernel": "gemm", "token": "a-turn"}
    os.pwrite(descriptor, json.dumps({**content, "since": since or time.time(), "staging": staging}).encode(), 0)
    return descriptor


def process_on_other_host() -> Process:
    return Process("0123456789ab", "node17", 4242, 1)


def ended_process() -> Process:
    """Return a process of this machine that has ended, and whose process ID has been reused."""
    return Process(this_machine(), "here", os.getpid(), 1)
