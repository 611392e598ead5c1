"""Code that only the hardware allows: warnings, and findings with `--strict`."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

import tkjit
from tkjit import In, Out, Tensor
from tkjit.cli import main
from tkjit.errors import SpecError
from tkjit.kernel_objects.loading import kernel_of_file
from tkjit.testing import KernelCheckError, KernelCheckWarning, check

pytestmark = pytest.mark.compiles
FLAG = """#include <cuda_runtime.h>
__device__ volatile int flag;
__global__ void flags(Globals g) {
    if (threadIdx.x == 0) {
        g.y[0] = g.x[0];
        __threadfence_block();
        flag = 1;
    } else {
        while (flag == 0) {}
        g.y[threadIdx.x] = g.y[0];
    }
}
"""
SPEC = """import tkjit
from tkjit import In, Out, Tensor

@tkjit.kernel("flags.cu", entry="flags", grid=1, block=64)
def flags(x: In[Tensor, "float32", 64], y: Out[Tensor, "float32", 64]) -> Tensor: ...
"""


@pytest.fixture
def flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "flags.cu").write_text(FLAG)
    (tmp_path / "flags.py").write_text(SPEC)
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    return tmp_path / "flags.py"


def test_a_race_of_two_volatile_accesses_is_a_warning(flags):
    with pytest.warns(KernelCheckWarning, match=r"flags: warning: volatile \(--race\): only volatile") as caught:
        report = check(kernel_of_file(flags), modes=["race"])
    (warning,) = report.warnings
    assert len(caught) == 1 and report.findings == [] and warning.warning
    assert {(side.access, side.line) for side in (warning.here, warning.there)} == {
        ("volatile write", 7),
        ("volatile read", 9),
    }
    assert "accesses to flag + 0 bytes" in warning.text


def test_a_strict_check_fails_with_warnings(flags):
    with pytest.raises(KernelCheckError, match=r"flags: 1 finding\nvolatile \(--race\): only volatile") as caught:
        check(kernel_of_file(flags), modes=["race"], strict=True)
    assert caught.value.report.warnings == []


def test_volatile_can_count_as_atomic(flags):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check(kernel_of_file(flags), modes=["race"], volatile="atomic", strict=True).warnings == []
    with pytest.raises(SpecError, match="volatile='no' is not known; expected race or atomic"):
        check(kernel_of_file(flags), volatile="no")


def test_volatile_on_the_command_line(flags, capsys):
    assert main(["check", "flags", "--race"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("warning: volatile (--race): only volatile")
    assert printed.err == "flags: race: nothing found, 1 warning (--strict counts warnings as findings) in 3 launches\n"
    assert main(["check", "flags", "--race", "--strict"]) == 1
    printed = capsys.readouterr()
    assert printed.out.startswith("volatile (--race): ") and "flags: race: 1 found in 3 launches" in printed.err
    assert main(["check", "flags", "--race", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["findings"] == []
    assert [(finding["kind"], finding["mode"]) for finding in report["warnings"]] == [("volatile", "race")]
    assert main(["check", "flags", "--race", "--strict", "--volatile=atomic"]) == 0


def test_a_race_of_a_plain_and_a_volatile_access_is_a_finding(flags):
    source = FLAG.replace("        flag = 1;", "        const_cast<int&>(flag) = 1;")
    (flags.parent / "flags.cu").write_text(source)
    with pytest.raises(KernelCheckError) as caught:
        check(kernel_of_file(flags), modes=["race"])
    assert {finding.kind for finding in caught.value.report.findings} >= {"volatile"}


def test_a_grid_sync_after_some_threads_have_returned_is_a_warning():
    @tkjit.kernel(
        """#include <cooperative_groups.h>
__global__ void turned(Globals g) {
    if (threadIdx.x >= 8) return;
    const int i = blockIdx.x * 8 + threadIdx.x;
    g.z[i] = g.x[i];
    cooperative_groups::this_grid().sync();
    g.y[i] = g.z[31 - i];
}""",
        entry="turned",
        grid=4,
        block=16,
        cooperative=True,
    )
    def turned(x: In[Tensor, "float32", 32], z: Out[Tensor, "float32", 32], y: Out[Tensor, "float32", 32]) -> None:
        return x.clone(), x.flip(0)

    with pytest.warns(KernelCheckWarning, match="a sync of the grid is reached by 8 of 16 threads"):
        assert check(turned, modes=["race", "order"]).findings == []
