"""Small kernels with labels: each label names the expected finding of its line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tkjit.kernel.kernel import kernel_of_file
from tkjit.testing import KernelCheckError, KernelCheckWarning, check

pytestmark = pytest.mark.compiles
ZOO = Path(__file__).parent / "zoo_labelled"
LABEL = re.compile(r"// (race|memory|volatile|constant|divergence|copy)$")


def labels(kernel: str) -> dict[int, set[str]]:
    """By line, what its comment says."""
    lines = (ZOO / kernel / f"{kernel}.cu").read_text().splitlines()
    return {number: {match[1]} for number, line in enumerate(lines, 1) if (match := LABEL.search(line))}


def found(kernel: str, *args: torch.Tensor, **options: Any) -> dict[int, set[str]]:
    """By line, the kinds of what is found there."""
    with pytest.raises(KernelCheckError) as caught:
        check(kernel_of_file(ZOO / kernel / f"{kernel}.py"), *args, strict=True, **options)
    kinds: dict[int, set[str]] = {}
    for finding in caught.value.report.findings:
        for place in (finding.here, finding.there):
            if place is not None:
                kinds.setdefault(place.line, set()).add(finding.kind)
    return kinds


@pytest.mark.parametrize("kernel", ["patterns", "more"])
def test_each_labelled_line_is_found_and_no_other(kernel):
    torch.manual_seed(0)
    index = torch.randint(0, 64, (64,), dtype=torch.int32)
    values, numbers = torch.zeros(40, 64), torch.zeros(40, 64, dtype=torch.int32)
    modes = ["race", "init"] if kernel == "more" else ["race"]
    said = labels(kernel)
    kinds = found(kernel, torch.randn(64), index, values, numbers, modes=modes)
    # what races may also be read before it is written; a line that says nothing keeps whatever was found there
    assert {line: kinds & said.get(line, kinds) for line, kinds in kinds.items()} == said


def test_stores_that_nobody_reads_are_looked_at_for_their_bounds():
    assert found("unread", modes=["memory"]) == labels("unread")


def test_barriers_to_which_not_all_come_alike():
    assert found("barriers", modes=["race"]) == labels("barriers")
    with pytest.warns(KernelCheckWarning) as told:
        report = check(kernel_of_file(ZOO / "barriers/barriers.py"), modes=["race"])
    assert len(told) == len(report.warnings) == 5
    texts = "\n".join(one.text for one in report.warnings)
    assert "__syncthreads is reached by 96 of 128 threads; the others, thread (" in texts
    assert "by 16 lanes of a warp and not by the others" in texts and "96 of the 128 arrivals" in texts
