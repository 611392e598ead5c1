"""``make tune``: results by kernel, resumption, and kernels that end their process."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from benchmarks.harness import ROOT

pytestmark = pytest.mark.compiles
SPEC = """
import os
import tkjit
from tkjit import In, Out, Tensor

@tkjit.kernel(
    "template <class T> __global__ void scaled(Globals g) "
    "{{ g.y.raw_ptr[threadIdx.x] = g.x.raw_ptr[threadIdx.x] * T(FACTOR); }}",
    entry="scaled<T>", grid=1, block="N", variants={{"T": ["bfloat16"]}}, defines={{"FACTOR": "{factor}"}},
    examples={{"N": 32}}, sizes=[{{"N": 64}}, {{"N": 128}}], constraints="N <= 1024",
)
def {name}(x: In[Tensor, "T", "N"], y: Out[Tensor, "T", "N"]) -> Tensor:
    return {result}
"""


@pytest.mark.slow
def test_each_kernel_is_measured_once_and_one_that_ends_the_process_stops_no_other(
    tmp_path, monkeypatch, cache_with_runtime
):
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    for name, factor, result in (("right", 2, "x * 2"), ("wrong", 3, "x * 2"), ("ends", 2, "os._exit(3)")):
        (tmp_path / f"{name}.py").write_text(SPEC.format(name=name, factor=factor, result=result))
    results = tmp_path / "results/tune.json"

    def tune(*options: str) -> dict:
        command = [sys.executable, "-m", "benchmarks.tune", "--device", "cpu", "--json", str(results), *options]
        done = subprocess.run([*command, "ends", "right", "wrong"], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 1, done.stderr
        return json.loads(results.read_text())["kernels"]

    first = tune()
    assert [one["error"] for one in first.values()] == ["did not end", "", ""]
    assert [len(one["calls"]) for one in first.values()] == [0, 2, 2] and first["right"]["wrong"] == []
    assert first["wrong"]["wrong"][0].startswith("wrong(T=bfloat16, N=32): ")
    assert first["right"]["calls"][1]["peers"]["reference"] > 0
    again = tune()
    assert again["right"] == first["right"] and again["ends"] == {**first["ends"], "tries": 2}
    # a run without time begins nothing, and a run after it measures only what is missing
    results.write_text(results.read_text().replace('"tries": 1', '"tries": 0').replace('"error": ""', '"error": "no"'))
    early = tune("--minutes", "0")
    assert [one["tries"] for one in early.values()] == [2, 0, 0]
    assert tune()["right"] == first["right"]
