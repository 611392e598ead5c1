"""Small kernels with labels: each label names the expected finding of its line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tkjit.kernel_objects.loading import kernel_of_file
from tkjit.testing import KernelCheckError, KernelCheckWarning, check

pytestmark = pytest.mark.compiles
ZOO = Path(__file__).parent / "zoo_labelled"
LABEL = re.compile(r"// (race|memory|volatile|constant|divergence|copy)$")


def labels(kernel: str) -> dict[int, set[str]]:
    """The label of each line."""
    lines = (ZOO / kernel / f"{kernel}.cu").read_text().splitlines()
    return {number: {match[1]} for number, line in enumerate(lines, 1) if (match := LABEL.search(line))}


def found(kernel: str, *args: torch.Tensor, **options: Any) -> dict[int, set[str]]:
    """The kinds of findings of each line."""
    with pytest.raises(KernelCheckError) as caught:
        check(kernel_of_file(ZOO / kernel / f"{kernel}.py"), *args, strict=True, **options)
    kinds: dict[int, set[str]] = {}
    for finding in caught.value.report.findings:
        for place in (finding.here, finding.there):
            if place is not None:
                kinds.setdefault(place.line, set()).add(finding.kind)
    return kinds


@pytest.mark.parametrize("kernel", ["patterns", "more"])
def test_exactly_the_labelled_lines_are_found(kernel):
    torch.manual_seed(0)
    index = torch.randint(0, 64, (64,), dtype=torch.int32)
    values, numbers = torch.zeros(40, 64), torch.zeros(40, 64, dtype=torch.int32)
    modes = ["race", "init"] if kernel == "more" else ["race"]
    expected = labels(kernel)
    kinds = found(kernel, torch.randn(64), index, values, numbers, modes=modes)
    # a labelled line may have other findings as well, because racy memory may also be read before it is written
    assert {line: kinds & expected.get(line, kinds) for line, kinds in kinds.items()} == expected


def test_out_of_bounds_stores_that_nobody_reads_are_found():
    assert found("unread", modes=["memory"]) == labels("unread")


def test_divergent_barriers_are_found():
    assert found("barriers", modes=["race"]) == labels("barriers")
    with pytest.warns(KernelCheckWarning) as caught:
        report = check(kernel_of_file(ZOO / "barriers/barriers.py"), modes=["race"])
    assert len(caught) == len(report.warnings) == 5
    texts = "\n".join(finding.text for finding in report.warnings)
    assert "__syncthreads is reached by 96 of 128 threads; the others, such as thread (" in texts
    assert "by 16 lanes of a warp but not by the others" in texts and "96 of the 128 arrivals" in texts
