"""The parts of ``bench`` that need no kernel: turns, rooflines, texts, the command's sizes and the plot."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest
import torch

from tkjit import SpecError
from tkjit.benchmark.measurement import Measurement, rate_text
from tkjit.benchmark.plot import plot
from tkjit.benchmark.roofline import Roofline
from tkjit.benchmark.timing import interleaved
from tkjit.check.plot import check_can_plot
from tkjit.cli.bench import _sizes

ROOFLINE = Roofline(bytes_per_s=3e12, flops_per_s=750e12)
GEMM = Measurement(
    *("gemm", "T=bfloat16", "M=4096, K=4096, N=4096", "an H100"),
    seconds=200e-6,
    spread=0.01,
    moved_bytes=3 * 2 * 4096**2,
    flops=2 * 4096**3,
    peers={"cuBLAS": 190e-6},
    roofline=ROOFLINE,
)


def test_functions_take_turns_and_each_one_starts_a_round():
    called = []
    functions = {name: lambda i, name=name: called.append(name) for name in "abc"}
    seconds = interleaved(functions, torch.device("cpu"), rounds=3)
    assert {name: len(times) for name, times in seconds.items()} == {"a": 3, "b": 3, "c": 3}
    turns = "".join(name for name, _ in groupby(called))
    assert turns == "abc" + "abc" + "bca" + "cab"  # the first is the warm-up


def test_the_share_of_the_roofline_counts_the_tighter_limit():
    by_flops = GEMM.flops / 750e12 / GEMM.seconds
    assert GEMM.share_of_roofline == pytest.approx(by_flops)
    copy = Measurement("copy", "", "N=1", "an H100", 2e-3, 0.0, moved_bytes=3 * 10**9, roofline=ROOFLINE)
    assert copy.share_of_roofline == pytest.approx(0.5)
    assert Roofline(3e12, 0.0).seconds(3 * 10**9, 10**30) == 1e-3  # torch has no product of this dtype


def test_texts():
    assert str(GEMM) == "gemm(T=bfloat16, M=4096, K=4096, N=4096)"
    assert GEMM.speed == "687 TFLOP/s" and GEMM.ratio("cuBLAS") == pytest.approx(0.95)
    assert rate_text(2.981e12, "B/s") == "2.98 TB/s" and rate_text(5e10, "B/s") == "50 GB/s"
    assert rate_text(12.0, "FLOP/s") == "1.2e-05 MFLOP/s"


@pytest.mark.parametrize(
    ("dims", "leading", "others", "expected"),
    [
        ([], "", {}, []),
        (["M,N=2,4"], "", {}, [{"M": 2, "N": 2}, {"M": 4, "N": 4}]),
        (["M=2,4", "N=8"], "", {"T": "x"}, [{"M": 2, "N": 8, "T": "x"}, {"M": 4, "N": 8, "T": "x"}]),
        (["N=8"], "3,4", {}, [{"N": 8, "...": (3, 4)}]),
        ([], "", {"causal": True}, [{"causal": True}]),
    ],
)
def test_sizes_of_the_command_line(dims, leading, others, expected):
    assert list(_sizes(dims, leading, others)) == expected


@pytest.mark.parametrize(
    ("dims", "leading", "message"),
    [
        (["N"], "", "'N' is not an assignment; expected NAME=EXTENT"),
        (["N=2.5"], "", "N=2.5: '2.5' is not an extent"),
        (["M,N=1", "N=2"], "", "--dim gives N twice"),
        (["N=-1"], "", "N=-1: '-1' is not an extent"),
        (["2=3"], "", "'2=3' is not an assignment"),
        ([], "3,x", "--leading: 'x' is not an extent"),
    ],
)
def test_wrong_sizes_of_the_command_line(dims, leading, message):
    with pytest.raises(SpecError, match=f"^{message}"):
        list(_sizes(dims, leading, {}))


@pytest.mark.parametrize("name", ["plot.svg", "plot.png"])
def test_a_plot_has_the_speeds_and_the_roofline(name, tmp_path):
    on_cpu = Measurement("gemm", "T=float32", "M=1", "cpu", 1e-3, 0.0, moved_bytes=12, flops=2)
    check_can_plot(tmp_path / name)
    plot([GEMM, on_cpu], tmp_path / name)
    if name.endswith(".svg"):
        text = (tmp_path / name).read_text()
        assert all(f"<!-- {words} -->" in text for words in ("cuBLAS", "tkjit", "roofline", "3.00 TB/s, 750 TFLOP/s"))
    assert (tmp_path / name).stat().st_size > 1000


def test_a_plot_that_cannot_be_written_is_reported_before_measuring(tmp_path, monkeypatch):
    with pytest.raises(SpecError, match=r"expected a file name that ends in \.svg, \.png, \.pdf"):
        check_can_plot(Path("plot.bmp"))
    with pytest.raises(SpecError, match="there is no directory"):
        check_can_plot(tmp_path / "missing/plot.svg")
    monkeypatch.setattr("tkjit.check.plot.find_spec", lambda name: None)
    with pytest.raises(SpecError, match="--plot needs matplotlib, which is not installed; pip install matplotlib"):
        check_can_plot(tmp_path / "plot.svg")
