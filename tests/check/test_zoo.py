"""The checker finds each seeded bug, and accepts the clean kernels.

A bug is a patch next to its kernel, ``zoo/KERNEL/BUG.patch``. The text above the diff gives the mode that finds it
(``any``: every mode), the kind of finding, and a part of the reported line.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from support.sampling import sample

from tkjit.check import MODES, Finding
from tkjit.kernel_objects.loading import kernel_of_file
from tkjit.testing import KernelCheckError, check

pytestmark = pytest.mark.compiles
ZOO = Path(__file__).parent / "zoo"
KERNELS = sorted(path.stem for path in ZOO.glob("*/*.py"))
COUNTER = torch.zeros(1, dtype=torch.int32)

# calls of kernels that need zeroed arguments, which their specs do not declare
CALLS = {
    "chained_sum": lambda: (torch.randn(300), COUNTER, torch.zeros(5, dtype=torch.int32)),
    "spin_lock": lambda: (torch.randn(500), COUNTER, torch.full((1,), -1.0), COUNTER),
    "sum_last_block": lambda: (torch.randn(1000), COUNTER),
    "work_queue": lambda: (torch.randn(7, 150), COUNTER),
}
# sizes for kernels that are slow or run their blocks in turns
DIMS = {
    "attention": {"Q": 6},
    "bulk_scale": {"N": 1024},
    "compact": {"M": 3, "N": 300},
    "gemm_wgmma": {"M": 70, "N": 70, "K": 264},
    "group_copy": {"M": 7, "N": 100},
    "hand_over": {"M": 3, "N": 300},
    "layernorm": {"M": 3, "N": 300},
    "rotary": {"S": 5, "H": 3, "F": 20},
    "row_scan": {"M": 3, "N": 300},
    "row_sums_async": {"M": 3, "N": 700},
}


@dataclass(frozen=True)
class Bug:
    """A patch, and the finding that is expected in the patched kernel."""

    patch: Path
    mode: str
    kind: str
    line: str

    @property
    def kernel(self) -> str:
        return self.patch.parent.name

    @property
    def name(self) -> str:
        return f"{self.kernel}-{self.patch.stem}"

    @property
    def modes(self) -> tuple[str, ...]:
        return ("race",) if self.mode == "any" else (self.mode,)


def bug_of(patch: Path) -> Bug:
    header, _, _ = patch.read_text().partition("\ndiff ")
    header_lines = dict(
        line.split(": ", 1) for line in header.splitlines() if line.startswith(("Mode: ", "Finds: ", "Line: "))
    )
    return Bug(patch, header_lines["Mode"], header_lines["Finds"], header_lines.get("Line", ""))


BUGS = [bug_of(patch) for patch in sorted(ZOO.glob("*/*.patch"))]


def findings(directory: Path, kernel: str, modes: tuple[str, ...]) -> list[Finding]:
    torch.manual_seed(0)
    arguments = CALLS[kernel]() if kernel in CALLS else ()
    try:
        check(kernel_of_file(directory / f"{kernel}.py"), *arguments, modes=modes, dims=DIMS.get(kernel), strict=True)
    except KernelCheckError as error:
        return error.report.findings
    return []


def lines_of(finding: Finding, directory: Path, kernel: str) -> list[str]:
    """The lines of the kernel's source in a finding."""
    source = (directory / f"{kernel}.cu").read_text().splitlines()
    places = [place for place in (finding.here, finding.there) if place is not None]
    return [source[place.line - 1] for place in places if Path(place.file).name == f"{kernel}.cu"]


# one of each mode and kind of finding, in kernels that compile fast; `make test-all` runs all
QUICK_KERNELS = ("half_dot", "row_sums_async")
QUICK_BUGS = (
    "bulk_scale-store_without_proxy_fence",
    "compact-ballot_of_some",
    "gemm_wgmma-freed_too_early",
    "half_dot-two_kinds_of_barrier",
    "hand_over-wrong_id",
    "hgemm_ptx-past_the_tile",
    "histogram-before_the_first_bin",
    "histogram-never_cleared",
    "histogram-plain_increment",
    "rotary-rotated_by_a_new_value",
    "row_scan-warp_synchronous",
    "row_sums_async-arrives_too_early",
    "spin_lock-no_fence_after_cas",
    "spin_lock-relaxed_release",
    "top_k-last_not_written",
)


@pytest.mark.parametrize("kernel", sample(KERNELS, *QUICK_KERNELS))
def test_a_clean_kernel_has_no_findings(kernel):
    assert "\n".join(map(str, findings(ZOO / kernel, kernel, MODES))) == ""


@pytest.mark.parametrize("bug", sample(BUGS, *QUICK_BUGS, name=lambda bug: bug.name))
def test_each_bug_is_found(bug, tmp_path):
    for suffix in (".py", ".cu"):
        shutil.copy(ZOO / bug.kernel / f"{bug.kernel}{suffix}", tmp_path)
    subprocess.run(["git", "apply", bug.patch], cwd=tmp_path, check=True)
    found = findings(tmp_path, bug.kernel, bug.modes)
    named = [lines_of(finding, tmp_path, bug.kernel) for finding in found if finding.kind == bug.kind]
    assert any(not bug.line or any(bug.line in line for line in lines) for lines in named), "\n".join(
        [f"expected: {bug.kind} at {bug.line!r}", "found:", *map(str, found)]
    )


def test_the_bugs_cover_all_modes_and_the_quick_ones_all_kinds():
    assert {bug.kernel for bug in BUGS} <= set(KERNELS)
    assert {bug.mode for bug in BUGS} == {*MODES, "any"}
    quick = {(bug.mode, bug.kind) for bug in BUGS if bug.name in QUICK_BUGS}
    assert quick == {(bug.mode, bug.kind) for bug in BUGS}
