"""Seeded bugs from an author who did not know the checker, some of which it misses.

A patch states the findings of its bug. If the checker starts to find a bug that is marked as missed, the test fails,
and the patch needs an update.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.sampling import sample

from tkjit.kernel_objects.loading import kernel_of_file
from tkjit.testing import KernelCheckError, check

pytestmark = pytest.mark.compiles
ZOO = Path(__file__).parent / "zoo_blind"
KERNELS = sorted(path.stem for path in ZOO.glob("*/*.py"))
BUGS = sorted(f"{path.parent.name}-{path.stem}" for path in ZOO.glob("*/*.patch"))
MODES = {"memory", "race", "init", "order"}
RESULT = re.compile(r"^Result: (?:missed|caught by (?P<modes>[\w, ]+) as (?P<kinds>[\w, ]+))$", re.MULTILINE)


def kinds_found(spec: Path) -> set[str]:
    try:
        check(kernel_of_file(spec))
    except KernelCheckError as error:
        return {finding.kind for finding in error.report.findings}
    return set()


@pytest.mark.slow
@pytest.mark.parametrize("kernel", sample(KERNELS, "block_sums"))
def test_the_kernel_without_the_bug_is_clean(kernel: str):
    check(kernel_of_file(ZOO / kernel / f"{kernel}.py"))


@pytest.mark.slow
@pytest.mark.parametrize("bug", sample(BUGS, "chunked_matvec-sums_not_cleared"))
def test_a_bug_is_found_or_missed_as_its_patch_states(bug: str, tmp_path: Path):
    kernel, _, name = bug.partition("-")
    patch = ZOO / kernel / f"{name}.patch"
    result = RESULT.search(patch.read_text())
    assert result, f"{patch} has no line Result:"
    assert set((result["modes"] or "race").split(", ")) <= MODES
    for suffix in (".py", ".cu"):
        shutil.copy(ZOO / kernel / f"{kernel}{suffix}", tmp_path)
    subprocess.run(["git", "apply", str(patch)], cwd=tmp_path, check=True)
    stated = set(result["kinds"].split(", ")) if result["kinds"] else set()
    assert kinds_found(tmp_path / f"{kernel}.py") == stated
