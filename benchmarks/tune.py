"""Verifies, tunes and times the bundled kernels on a GPU: ``python -m benchmarks.tune``.

It stops after ``--minutes``, and writes one JSON file with the device, the date, the commit, the measurements and their
predictions, and what there was no time for.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import torch

import tkjit
from benchmarks.harness import ROOT
from tkjit.benchmark.measure import measurements
from tkjit.errors import TkjitError
from tkjit.kernel import find
from tkjit.verify import Options, verify

TYPES = {"scaled_matmul": ("float8_e4m3fn", "bfloat16")}  # bfloat16 for the other kernels
# the share of the roofline that we expect, written down before the first run on a GPU: for products of at least 2048^3,
# and for rows of 256 to 16384 elements that begin at a multiple of 16 bytes
PREDICTED = {
    "gemm": 0.97,
    "matmul": 0.95,
    "grouped_matmul": 0.85,
    "scaled_matmul": 0.85,
    "linear": 0.95,
    "gated_linear": 0.93,
    "attention": 0.75,
    "attention_gradient": 0.43,  # seven products instead of five, which keep the tensor cores busy for 0.6 of the time
    "rms_norm": 0.93,
    "add_rms_norm": 0.93,
    "layer_norm": 0.92,
    "add_layer_norm": 0.92,
    "rms_norm_fp8": 0.88,
    "add_rms_norm_fp8": 0.9,
    "layer_norm_fp8": 0.87,
    "rms_norm_gradient": 0.8,
    "layer_norm_gradient": 0.75,
    "softmax": 0.85,
    "cross_entropy": 0.85,
    "fused_cross_entropy": 0.8,
    "silu_mul": 0.93,
    "rotary": 0.88,
    "paged_attention": 0.8,
    "quant_matmul": 0.75,
    "causal_conv1d": 0.88,
    "selective_scan": 0.22,
    "linear_attention": 0.35,
    "reduce": 0.92,
    "transpose": 0.85,
    "scan": 0.75,
    "histogram": 0.6,
    "top_k": 0.2,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernels", nargs="*", default=list(PREDICTED), help=f"default: {', '.join(PREDICTED)}")
    parser.add_argument("--minutes", type=float, default=1.9)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--json", type=Path, default=ROOT / "gpu-results/tune.json")
    arguments = parser.parse_args()
    deadline = time.monotonic() + 60 * arguments.minutes
    on_gpu = arguments.device == "cuda"
    results: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="minutes"),
        "commit": subprocess.run(
            ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False, cwd=ROOT
        ).stdout.strip(),
        "torch": torch.__version__,
        "kernels": {name: {"predicted": PREDICTED.get(name)} for name in arguments.kernels},
    }
    for name, result in results["kernels"].items():
        if time.monotonic() > deadline:
            result["error"] = "no time left"
        else:
            result |= _tuned(name, arguments.device, deadline)
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(results, indent=1))  # after each kernel, in case this process is killed
    print(arguments.json.read_text())
    return int(any("error" in result or result["wrong"] for result in results["kernels"].values()))


def _tuned(name: str, device: str, deadline: float) -> dict[str, Any]:
    """Verify a kernel, and measure its calls until the deadline."""
    result: dict[str, Any] = {"wrong": [], "calls": []}
    types = TYPES.get(name, ("bfloat16",))
    try:
        for outcome in verify([name], Options(device=device, types=types)):
            if not outcome.is_right:
                result["wrong"].append(f"{outcome}: {outcome.verdict}")
        if any(spec.tuning for spec in find(name).specs):
            result["tuned"] = [choice.as_json() for choice in tkjit.tune(name, types=types, device=device)]
        for one in measurements(name, (), types, device, inductor=device == "cuda", rounds=15):
            result["calls"].append(one.as_json())
            if time.monotonic() > deadline:
                result["error"] = "no time left for the other calls"
                break
    except (TkjitError, RuntimeError) as error:  # such as too little memory; go on with the other kernels
        result["error"] = str(error)
    return result


if __name__ == "__main__":
    raise SystemExit(main())
