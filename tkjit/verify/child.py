"""Makes the calls of one kernel in a separate process, so that a crash affects nothing else.

``python -m tkjit.verify.child DESCRIPTOR`` reads a ``Task`` as JSON from standard input. It writes a line of JSON to
the descriptor when a call begins, and another with the outcome.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice

from tkjit.config import Settings
from tkjit.errors import TkjitError
from tkjit.headers import locate
from tkjit.kernel_objects import find
from tkjit.loader import loader_for
from tkjit.verify.call import Outcome, Planned, call_kernels, planned
from tkjit.verify.task import BEGIN, END, REFUSED, Task


def work(task: Task, descriptor: int) -> None:
    """Make the calls, and write the outcome of each."""

    def write(event: str, outcome: Outcome) -> None:
        os.write(descriptor, json.dumps({"event": event, **asdict(outcome)}).encode() + b"\n")

    def announced(calls: Iterator[Planned]) -> Iterator[Planned]:
        for call in calls:
            write(BEGIN, call.outcome)
            yield call

    try:
        kernel, loader = find(task.kernel), loader_for(Settings.from_environment())
        for spec in kernel.specs:
            locate(spec, loader.settings)  # report a missing library once, not for each call
        calls = islice(planned(kernel, task.types, task.given, task.seed, task.device), task.skipped, None)
        for outcome in call_kernels(announced(calls), kernel, loader, task.device):
            write(END, outcome)
    except TkjitError as error:
        write(REFUSED, Outcome(task.kernel, refused=str(error)))


if __name__ == "__main__":
    work(Task(**json.load(sys.stdin)), int(sys.argv[1]))
