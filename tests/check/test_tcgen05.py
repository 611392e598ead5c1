"""Missing waits and fences in tensor memory (`tcgen05`), and memory there that nothing has written.

Source: PTX ISA, "tcgen05 memory consistency model".
"""

from __future__ import annotations

import re
from functools import partial

import pytest
from support.tcgen05.kernels import SOURCES, define_for_blackwell

from tkjit.testing import KernelCheckError, check

pytestmark = pytest.mark.compiles
slow = partial(pytest.param, marks=pytest.mark.slow)
SOURCE = (SOURCES / "chain.cu").read_text()
MATRICES = '(a: In[Tensor, "bfloat16", 128, 16], b: In[Tensor, "bfloat16", 64, 16], c: Out[Tensor, "float32", 128, 64])'


def with_mistakes(*marks: str) -> str:
    """The source without the lines that end with a mark, and with those that begin with one."""
    source = SOURCE
    for mark in marks:
        assert f"// {mark}\n" in source or f"//{mark}//" in source, mark
        source = re.sub(rf"^.*// {mark}$", "", source, flags=re.MULTILINE).replace(f"//{mark}// ", "")
    return source


def findings(*marks: str) -> list[str]:
    """The findings and warnings, each with its kind, and with its two accesses."""
    kernel = define_for_blackwell(with_mistakes(*marks), MATRICES, entry="chain", block=256)
    try:
        report = check(kernel, modes=["race", "init"], strict=True)
    except KernelCheckError as error:
        report = error.report
    return [
        f"{one.kind}: {' after '.join(side.access for side in (one.here, one.there) if side)}"
        for one in report.findings
    ]


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ([], []),
        (["proxy fence"], ["proxy: asynchronous read after write"]),
        (["load wait"], ["tcgen05: read after tcgen05.ld", "race: tcgen05.dealloc after tcgen05.ld"]),
        slow(["first wait"], ["race: tcgen05.ld after tcgen05 write"]),
        slow(["store wait"], ["race: tcgen05 read after tcgen05.st"]),
        slow(["meeting"], ["race: tcgen05 read after tcgen05.st"]),
        # the second warps of each quarter of the lanes may not have read what the first ones overwrite
        (["alias"], ["race: tcgen05.st after tcgen05.ld"]),
        (["reuse"], ["race: asynchronous read after write"]),
        slow(
            ["second wait", "results"],
            ["race: asynchronous read after write", "race: tcgen05.dealloc after tcgen05 write"],
        ),
        (["adds first"], ["uninitialized: tcgen05 write"]),
        slow(["after the first product"], ["fence: tcgen05.ld after tcgen05 write"]),
        slow(["before the second product"], ["fence: tcgen05 read after tcgen05.st"]),
        (["at the second product"], ["fence: tcgen05 read after tcgen05.st"]),
        slow(["first commit"], ["fault: wait"]),
    ],
)
def test_a_missing_step(marks, expected):
    found = findings(*marks)
    assert {*expected} <= {*found} if expected else not found
