"""Many small kernels in one source, whose lines say what the checker has to find in them: that, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tkjit.kernel.kernel import defined
from tkjit.testing import KernelCheckError, check

ZOO = Path(__file__).parent / "zoo_labelled"
LABEL = re.compile(r"// (race|memory|volatile|constant)$")


def labels(kernel: str) -> dict[int, set[str]]:
    """By line, what its comment says."""
    lines = (ZOO / f"{kernel}.cu").read_text().splitlines()
    return {number: {match[1]} for number, line in enumerate(lines, 1) if (match := LABEL.search(line))}


def found(kernel: str, *args: torch.Tensor, **options: Any) -> dict[int, set[str]]:
    """By line, the kinds of what is found there."""
    with pytest.raises(KernelCheckError) as caught:
        check(defined(ZOO / f"{kernel}.py"), *args, strict=True, **options)
    kinds: dict[int, set[str]] = {}
    for finding in caught.value.report.findings:
        for place in (finding.here, finding.there):
            if place is not None:
                kinds.setdefault(place.line, set()).add(finding.kind)
    return kinds


def test_each_labelled_line_of_patterns_of_races_is_found_and_no_other():
    torch.manual_seed(0)
    index = torch.randint(0, 64, (64,), dtype=torch.int32)
    values, numbers = torch.zeros(40, 64), torch.zeros(40, 64, dtype=torch.int32)
    assert found("patterns", torch.randn(64), index, values, numbers, modes=["race"]) == labels("patterns")


def test_stores_that_nobody_reads_are_looked_at_for_their_bounds():
    assert found("unread", modes=["memory"]) == labels("unread")
