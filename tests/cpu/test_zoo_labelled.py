"""Many small kernels in one source, whose lines say what the checker has to find in them: that, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from tkjit.kernel.kernel import defined
from tkjit.testing import KernelCheckError, check

ZOO = Path(__file__).parent / "zoo_labelled"
LABEL = re.compile(r"// (race|memory)$")


def labels(kernel: str, kinds: set[str]) -> dict[int, str]:
    """By line, what its comment says."""
    lines = (ZOO / f"{kernel}.cu").read_text().splitlines()
    said = {number: match[1] for number, line in enumerate(lines, 1) if (match := LABEL.search(line))}
    return {number: kind for number, kind in said.items() if kind in kinds}


def found(kernel: str, *args: torch.Tensor, **options: object) -> dict[int, set[str]]:
    """By line, the kinds of what is found there."""
    with pytest.raises(KernelCheckError) as caught:
        check(defined(ZOO / f"{kernel}.py"), *args, **options)
    kinds: dict[int, set[str]] = {}
    for finding in caught.value.report.findings:
        for place in (finding.here, finding.there):
            if place is not None:
                kinds.setdefault(place.line, set()).add(finding.kind)
    return kinds


def arguments() -> list[torch.Tensor]:
    torch.manual_seed(0)
    integers = torch.randint(0, 64, (64,), dtype=torch.int32)
    return [torch.randn(64), integers, torch.zeros(40, 64), torch.zeros(40, 64, dtype=torch.int32)]


def test_each_labelled_line_is_found_and_no_other():
    expected = {line: {kind} for line, kind in labels("patterns", {"race"}).items()}
    assert found("patterns", *arguments(), modes=["race"]) == expected


def test_stores_that_nobody_reads_are_looked_at_for_their_bounds():
    expected = {line: {kind} for line, kind in labels("unread", {"memory"}).items()}
    assert found("unread", modes=["memory"]) == expected
