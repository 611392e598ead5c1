"""Makes the calls of one kernel in a process of its own: one that crashes ends nothing else.

``python -m tkjit.verify.child``, with a ``Task`` as JSON on standard input; it writes a line of JSON to a descriptor when
a call begins, and one with its outcome.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from tkjit.config import Settings
from tkjit.errors import TkjitError
from tkjit.kernel import find
from tkjit.loader import loader_for
from tkjit.verify.call import Outcome, make, planned

BEGIN, END, REFUSED = "begin", "end", "refused"  # of a call, and of a kernel that cannot be called


@dataclass(frozen=True)
class Task:
    """What a process is asked to do.

    Parameters
    ----------
    kernel : str
    device : {"cpu", "cuda"}
    types : sequence of str
        Only variants of these dtypes; empty for all.
    given : mapping
        Extents of dims, values of numbers, variants.
    seed : int
    skipped : int
        How many of the first calls are not made again.
    """

    kernel: str
    device: str
    types: Sequence[str]
    given: Mapping[str, Any]
    seed: int
    skipped: int = 0

    def as_json(self) -> str:
        return json.dumps(asdict(self))


def work(task: Task, descriptor: int) -> None:
    """Make the calls, and write what comes of each."""

    def write(event: str, outcome: Outcome) -> None:
        os.write(descriptor, json.dumps({"event": event, **asdict(outcome)}).encode() + b"\n")

    try:
        kernel, loader = find(task.kernel), loader_for(Settings.from_environment())
        for call in islice(planned(kernel, task.types, task.given, task.seed), task.skipped, None):
            write(BEGIN, call.outcome)
            write(END, make(call, kernel, loader, task.device))
    except TkjitError as error:
        write(REFUSED, Outcome(task.kernel, problems=(f"{type(error).__name__}: {error}",)))


if __name__ == "__main__":
    work(Task(**json.load(sys.stdin)), int(sys.argv[1]))
