"""Verifies ThunderKittens' kernels against their references in the simulator.

``python -m benchmarks.thunderkittens_on_cpu`` prints a table and writes it into ``docs/howto/thunderkittens.md``. With
names of kernels, it verifies only these and writes nothing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from textwrap import shorten

from benchmarks.thunderkittens import HELPERS, PAGE, commits_of, place_headers, today
from tkjit import find
from tkjit.errors import TkjitError
from tkjit.verify import Options, Outcome, verify

BEGIN, END = "<!-- made by thunderkittens_on_cpu: begin -->", "<!-- made by thunderkittens_on_cpu: end -->"
# the mistakes in the sources of kernels with wrong results
REASONS = {
    "tk_flux_gate": "`wg_rt_sv_op` counts columns instead of tiles of 16 columns, and so runs past the tile (line 25)",
    "tk_layernorm": "no `__syncwarp` between the sum in shared memory and its store (line 137)",
    "tk_linear_attention": "`wg_mask` uses the warp's number as a tile index, but there is only one tile (line 56)",
    "tk_rotary": "`coord` counts rows instead of tiles, so warp w reads the tables from row w on (line 73)",
}


def kernels() -> list[str]:
    return list(HELPERS["KERNELS"])


def row(kernel: str, variant: str, outcomes: Sequence[Outcome]) -> str:
    """The table's line for a variant, with all of its calls."""
    wrong = [outcome for outcome in outcomes if not outcome.is_right]
    if not wrong:
        said = f"yes, {len(outcomes)} call{'s' if len(outcomes) > 1 else ''}"
    else:
        first = shorten(wrong[0].verdict.splitlines()[0], 120, placeholder=" ...")
        said = f"no, {len(wrong)} of {len(outcomes)} calls: {first}; {REASONS.get(kernel, 'not explained')}"
    compiled = sum(outcome.compile_cpu_s for outcome in outcomes)
    called = sum(outcome.call_cpu_s for outcome in outcomes)
    devices = " over 8 devices" if find(kernel).specs[0].is_parallel else ""
    return f"| `{kernel}`{f' ({variant})' if variant else ''}{devices} | {said} | {compiled:.1f} | {called:.2f} |"


def table(outcomes: Sequence[Outcome], commits: str) -> list[str]:
    """The table and the line above it."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in sorted(outcomes, key=lambda outcome: outcome.kernel):
        groups.setdefault((outcome.kernel, outcome.variant), []).append(outcome)
    right = sum(all(outcome.is_right for outcome in group) for group in groups.values())
    compiled, called = (sum(getattr(each, name) for each in outcomes) for name in ("compile_cpu_s", "call_cpu_s"))
    return [
        f"{today()}, {commits}: {right} of {len(groups)} variants are verified. All compilers took "
        f"{compiled:.0f} CPU seconds, all calls {called:.0f}.",
        "",
        "| kernel | verified on the CPU | CPU s of its compilers | CPU s of its calls |",
        "|---|---|---|---|",
        *(row(kernel, variant, group) for (kernel, variant), group in groups.items()),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.thunderkittens_on_cpu", description=__doc__)
    parser.add_argument("kernels", nargs="*", help="verify only these, and write nothing")
    parser.add_argument("--commit", default="", help="ThunderKittens' commit, if its directory does not have it")
    arguments = parser.parse_args()
    try:
        commits = commits_of(place_headers(), arguments.commit)
    except TkjitError as error:
        sys.exit(str(error))
    outcomes = []
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TKJIT_CACHE"] = cache
        # builds what all kernels share, so that it does not count for the first
        subprocess.run(
            [sys.executable, "-m", "tkjit", "warmup", "axpy", "--device", "cpu"], check=True, stdout=sys.stderr
        )
        for outcome in verify(arguments.kernels or kernels(), Options()):
            outcomes.append(outcome)
            print(f"{outcome}: {outcome.verdict}", file=sys.stderr, flush=True)
    lines = table(outcomes, commits)
    print("\n".join(lines))
    if not arguments.kernels:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text("\n".join([before + BEGIN, *lines, END + rest.partition(END)[2]]))
    sys.exit(1 if any(not outcome.is_right and outcome.kernel not in REASONS for outcome in outcomes) else 0)


if __name__ == "__main__":
    main()
