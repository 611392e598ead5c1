"""Runs a checker in a separate process, which isolates memory corruption."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import torch

from tkjit.check.arguments import pack, unpack
from tkjit.spec import Spec
from tkjit.system.files import from_json

MAX_STDERR_BYTES = 500  # the most bytes of a process's standard error that are quoted
TIMED_OUT = 4  # the exit status of a checker that has reported its own timeout (sim/check/endings.h)
TIMEOUT_REPORT_S = 5  # the time after the timeout in which the checker reports the line that it has reached, and exits
ORDERS = ("forward", "reverse", "random", "adversarial")  # must have the order of the enum in sim/runtime/schedule.h


@dataclass(frozen=True)
class Run:
    """The outcome of one launch.

    Parameters
    ----------
    found : list of dict
        The findings that the checker wrote.
    outputs : dict, or None
        The tensors that the kernel may have written, or None if it did not finish.
    timed_out : bool
        Whether the launch was stopped because it took too long.
    """

    found: list[dict[str, Any]]
    outputs: dict[str, torch.Tensor] | None
    timed_out: bool = False


def run(
    checker: Path,
    spec: Spec,
    arguments: Mapping[str, Any],
    *,
    order: str,
    seed: int,
    timeout_s: float,
    trace: bool = False,
    volatile_is_atomic: bool = False,
) -> Run:
    """Launch the kernel once, with its threads in one order."""
    options = (ORDERS.index(order), seed, 2 if trace else -1, ceil(timeout_s), int(volatile_is_atomic))
    found, output, timed_out = launch(checker, pack(spec, arguments), options, timeout_s, trace=trace)
    failed = output is None or any(one["kind"] == "fault" for one in found)
    return Run(found, None if failed else unpack(spec, arguments, output or b""), timed_out)


def launch(
    checker: Path, inputs: bytes, options: Sequence[int], timeout_s: float, *, trace: bool = False
) -> tuple[list[dict[str, Any]], bytes | None, bool]:
    """Run a checker's process.

    Parameters
    ----------
    inputs : bytes
        The arguments, as ``pack`` encodes them.
    options : sequence of int
        The order, the seed, the file descriptor of the trace, the timeout, and whether volatile is atomic.

    Returns
    -------
    tuple
        The findings; what the process wrote to its output file, or None if it did not finish; and whether it was
        stopped because it took too long.
    """
    with tempfile.TemporaryDirectory(prefix="tkjit-check-") as name:
        directory = Path(name)
        input_file, outputs, findings = directory / "inputs", directory / "outputs", directory / "findings"
        input_file.write_bytes(inputs)
        with findings.open("wb") as file:
            words = [input_file, outputs, file.fileno(), *options]
            try:
                done = subprocess.run(
                    [*_fixed_addresses(), checker, *map(str, words)],
                    pass_fds=[file.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=2 if trace else subprocess.DEVNULL,  # the kernel's output
                    stderr=None if trace else subprocess.PIPE,
                    timeout=ceil(timeout_s) + TIMEOUT_REPORT_S,
                )
                status: int | None = done.returncode
                errors = done.stderr or b""
            except subprocess.TimeoutExpired as late:
                status, errors = None, late.stderr or b""
        found = _read(findings)
        if found and found[-1]["kind"] == "done" and not status:
            return found[:-1], outputs.read_bytes() if outputs.exists() else b"", False
        found = [one for one in found if one["kind"] != "done"]
        if not any(one["kind"] == "fault" or one.get("ends") for one in found):
            found.append(
                {
                    "kind": "fault",
                    "text": ending_of("the checked process", status, timeout_s, errors[:MAX_STDERR_BYTES]),
                }
            )
        return found, None, status in (None, TIMED_OUT)


def _read(findings: Path) -> list[dict[str, Any]]:
    """Read the findings that a checker has written, without an unfinished last line."""
    found = []
    for line in findings.read_text(errors="replace").splitlines():
        with suppress(ValueError):
            found.append(from_json(line))
    return [one for one in found if isinstance(one, dict) and "kind" in one]


def ending_of(what: str, status: int | None, timeout_s: float, output: bytes) -> str:
    """Describe the end of a process that did not report it. The status is None if the process took too long."""
    if status is None:
        end = f"it did not end within {timeout_s:.0f} s"
    else:
        end = f"{what} ended with {f'signal {-status}' if status < 0 else f'status {status}'}"
    words = output.decode(errors="replace").strip()
    return f"{end}: {words}" if words else end


@cache
def _fixed_addresses() -> tuple[str, ...]:
    """Return a command prefix that turns off address randomization, or nothing if that is not possible.

    Old sanitizers sometimes fail under the stronger randomization of newer Linux kernels.
    """
    setarch = shutil.which("setarch")
    if setarch is None or subprocess.run([setarch, "-R", "true"], capture_output=True).returncode:
        return ()  # for example, a container may forbid it
    return (setarch, "-R")
