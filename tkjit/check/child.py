"""Running a checker: a process of its own, so that a kernel that destroys memory destroys nobody else's."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import torch

from tkjit.check.arguments import pack, unpack
from tkjit.spec import Spec

ORDERS = ("forward", "reverse", "random", "adversarial")  # as sim/runtime/schedule.h numbers them


@dataclass(frozen=True)
class Run:
    """What one launch gave.

    Parameters
    ----------
    found : list of dict
        What the checker wrote, a finding each.
    outputs : dict, or None
        The tensors that the kernel may have written; None if it did not come to its end.
    """

    found: list[dict[str, Any]]
    outputs: dict[str, torch.Tensor] | None


def run(
    checker: Path,
    spec: Spec,
    arguments: Mapping[str, Any],
    *,
    order: str,
    seed: int,
    timeout_s: float,
    trace: bool = False,
) -> Run:
    """Launch once, in one order of the threads."""
    with tempfile.TemporaryDirectory(prefix="tkjit-check-") as name:
        directory = Path(name)
        inputs, outputs, findings = directory / "inputs", directory / "outputs", directory / "findings"
        inputs.write_bytes(pack(spec, arguments))
        with findings.open("wb") as file:
            words = [inputs, outputs, file.fileno(), ORDERS.index(order), seed, 2 if trace else -1, ceil(timeout_s)]
            try:
                done = subprocess.run(
                    [*_fixed_addresses(), checker, *map(str, words)],
                    pass_fds=[file.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=2 if trace else subprocess.DEVNULL,  # what the kernel prints
                    stderr=None if trace else subprocess.PIPE,
                    timeout=ceil(timeout_s) + 5,  # it ends itself, and says where it is
                )
                status: int | None = done.returncode
            except subprocess.TimeoutExpired:
                status = None
        found = [json.loads(line) for line in findings.read_text(errors="replace").splitlines() if line.endswith("}")]
        if found and found[-1]["kind"] == "done":
            failed = any(one["kind"] == "fault" for one in found)
            return Run(found[:-1], None if failed else unpack(spec, arguments, outputs.read_bytes()))
        if status is None:
            return Run([*found, {"kind": "fault", "text": f"it did not end within {timeout_s:.0f} s"}], None)
        if not any(one["kind"] in ("memory", "fault") for one in found):
            end = f"signal {-status}" if status < 0 else f"status {status}"
            said = (done.stderr or b"").decode(errors="replace").strip()
            found.append(
                {"kind": "fault", "text": f"the checked process ended with {end}{f': {said[:500]}' if said else ''}"}
            )
        return Run(found, None)


@cache
def _fixed_addresses() -> tuple[str, ...]:
    """Old sanitizers cannot live with all that newer kernels randomize; without this they mostly work all the same."""
    setarch = shutil.which("setarch")
    if setarch is None or subprocess.run([setarch, "-R", "true"], capture_output=True).returncode:
        return ()  # a container may forbid it
    return (setarch, "-R")
