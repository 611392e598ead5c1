"""The page of figures that is made from the results of ``make tune``."""

from __future__ import annotations

from benchmarks.harness import ROOT
from benchmarks.tune_report import with_figures
from tkjit.benchmark.measurement import Measurement
from tkjit.benchmark.roofline import Roofline


def results(*seconds: float) -> dict:
    limits = Roofline(1e12, 1e15)
    calls = [
        Measurement("gemm", "T=bfloat16", f"M={i}", "a GPU", one, 0.0, 10**6, 10**10, {"cuBLAS": 3e-5}, {}, limits)
        for i, one in enumerate(seconds)
    ]
    kernels = {
        "gemm": {"predicted": 0.9, "wrong": [], "calls": [one.as_json() for one in calls]},
        "scan": {"predicted": None, "error": "no time left"},
    }
    return {"device": "a GPU", "date": "2026-01-01", "commit": "abc", "torch": "2.13", "kernels": kernels}


def test_figures_replace_those_of_an_earlier_run(tmp_path):
    page = (ROOT / "docs/explanation/performance.md").read_text()
    once = with_figures(page, results(2e-5), tmp_path / "plots")
    assert "| `gemm(T=bfloat16, M=0)` | 20.0 | 500 TFLOP/s | 0.50 | 30.0 (1.50) |" in once
    assert "| call | time (us) | speed | of roofline (0.9 predicted) | cuBLAS |" in once
    assert "Not measured or wrong: no time left" in once and "have not run on a GPU yet" not in once
    assert not (tmp_path / "plots").exists()
    twice = with_figures(once, results(1e-5, 2e-5), tmp_path / "plots")
    assert "20.0 (" not in twice.split("M=1")[0] and "![gemm](plots/gemm.svg)" in twice
    assert "<svg" in (tmp_path / "plots/gemm.svg").read_text()
    assert twice.split("## Figures")[0] == page.split("## Figures")[0]
