"""ThunderKittens' kernels for Hopper in the simulator, against their references.

``python -m benchmarks.thunderkittens_on_cpu`` prints a table and writes it into ``docs/thunderkittens.md``. With names
of kernels it runs these alone and writes nothing.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from functools import partial
from typing import Any

import tkjit
from benchmarks.thunderkittens import HELPERS, PAGE, commits_of, place_headers, today
from tkjit.errors import TkjitError

BEGIN, END = "<!-- made by thunderkittens_on_cpu: begin -->", "<!-- made by thunderkittens_on_cpu: end -->"
# of kernels whose results are wrong here: what in their sources is the reason
REASONS = {
    "tk_flux_gate": "`wg_rt_sv_op` counts columns where it means tiles of 16 columns, and so leaves the tile (line 25)",
    "tk_layernorm": "between the sum in shared memory and its store no `__syncwarp` (line 137)",
    "tk_linear_attention": "`wg_mask` uses the warp's number as an index of tiles of which there is one (line 56)",
    "tk_rotary": "`coord` of a row where one of a tile is meant: warp w reads the tables from row w on (line 73)",
}


def _cpu_seconds(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def _errors_of_8(case: Any) -> list[float]:
    """The errors of a call over 8 simulated devices, each device's of each tensor."""
    tensors = [field.name for field in case.spec.fields if field.is_tensor]
    given = {name: [case.part(name, device) for device in range(8)] for name in tensors}
    tkjit.load(case.kernel)(**given)
    if case.clears:
        tkjit.load(case.clears)(**given)
    return [
        HELPERS["error"](got, right)
        for name, parts in case.expected().items()
        for got, right in zip(given[name], parts, strict=True)
    ]


def run_case(case: Any) -> str:
    """The line of one case, in this process: CPU seconds of its compilers and of a second call, and its errors."""
    start = _cpu_seconds(resource.RUSAGE_CHILDREN)
    errors_of = partial(case.errors, "cpu") if hasattr(case, "errors") else partial(_errors_of_8, case)
    try:
        errors = errors_of()
    except TkjitError as error:
        return f"no: {str(error).splitlines()[0][:160]} | | "
    compiled = _cpu_seconds(resource.RUSAGE_CHILDREN) - start
    begun = _cpu_seconds(resource.RUSAGE_SELF)
    errors_of()
    ran = _cpu_seconds(resource.RUSAGE_SELF) - begun
    largest = max(errors)
    verdict = "yes" if largest <= getattr(case, "tolerance", 0.01) else f"no: an error of {largest:.2g}"
    return f"{verdict} | {compiled:.1f} | {ran:.2f}"


def _line(case: Any) -> str:
    """A case in a process of its own: one that crashes takes no other with it."""
    command = [sys.executable, "-m", "benchmarks.thunderkittens_on_cpu", "--case", str(case)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        said = done.stdout.strip().splitlines()[-1] if done.returncode == 0 else "no: it ended its process | | "
    except subprocess.TimeoutExpired:
        said = "no: more than 600 s | | "
    if said.startswith("no:") and case.kernel in REASONS:
        said = said.replace(" | ", f"; {REASONS[case.kernel]} | ", 1)
    return f"| `{case}`{'' if hasattr(case, 'errors') else ' over 8 devices'} | {said} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.thunderkittens_on_cpu", description=__doc__)
    parser.add_argument("kernels", nargs="*", help="these alone; nothing is written then")
    parser.add_argument("--commit", default="", help="ThunderKittens' commit, where its directory does not say it")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    every = (*HELPERS["CASES"], *HELPERS["CASES_OF_8"])
    cases = [case for case in every if HELPERS["arch_of"](case.spec) == "90a"]
    if arguments.case:
        print(run_case(next(case for case in cases if str(case) == arguments.case)))
        return
    try:
        commits = commits_of(place_headers(), arguments.commit)
    except TkjitError as error:
        sys.exit(str(error))
    lines = []
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TKJIT_CACHE"] = cache
        # what all kernels share is no kernel's
        subprocess.run(
            [sys.executable, "-m", "tkjit", "warmup", "axpy", "--device", "cpu"], check=True, stdout=sys.stderr
        )
        for case in cases:
            if arguments.kernels and case.kernel not in arguments.kernels:
                continue
            lines.append(_line(case))
            print(lines[-1], flush=True)
    right = sum("| yes |" in line for line in lines)
    if not arguments.kernels:
        table = [
            f"{today()}, {commits}: {right} of {len(lines)} calls are right.",
            "",
            "| call | verified on the CPU | CPU s of its compilers | CPU s of a call and its reference |",
            "|---|---|---|---|",
            *lines,
        ]
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text("\n".join([before + BEGIN, *table, END + rest.partition(END)[2]]))
    unexplained = [line for line in lines if "| no:" in line and not any(f"`{name}(" in line for name in REASONS)]
    sys.exit(1 if unexplained else 0)


if __name__ == "__main__":
    main()
