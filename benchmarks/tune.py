"""Verifies, tunes and times the bundled kernels on a GPU: ``python -m benchmarks.tune``.

It stops after ``--minutes``, and continues from there the next time. All results of a device and a commit are in one
JSON file, with their predictions. Kernels are compiled in parallel while others are measured. They run in a child
process, which is replaced if a kernel crashes.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

import tkjit
from benchmarks.author_kernels import MODULES, load_author_module
from benchmarks.harness import ROOT, commit_text
from tkjit.benchmark.measure import calls_to_measure, device_to_measure, measure, start_builds
from tkjit.config import Settings
from tkjit.errors import TkjitError
from tkjit.kernel_objects import find
from tkjit.loader import loader_for
from tkjit.verify.call import call_kernels, planned

TYPES = {"scaled_matmul": ("float8_e4m3fn", "bfloat16")}  # bfloat16 for the other kernels
TUNED = ("gemm", "gated_linear", "scaled_matmul", "grouped_matmul")  # others share gemm's code, and use its default
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
    "causal_conv1d_gradient": 0.8,
    "selective_scan": 0.22,
    "selective_scan_gradient": 0.15,
    "linear_attention": 0.35,
    "reduce": 0.92,
    "transpose": 0.85,
    "scan": 0.75,
    "histogram": 0.6,
    "top_k": 0.2,
}
SECONDS_TO_END = 20.0  # for the call that is being measured when the time is over


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernels", nargs="*", default=list(PREDICTED), help=f"default: {', '.join(PREDICTED)}")
    parser.add_argument("--minutes", type=float, default=1.7)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--json", type=Path, default=ROOT / "gpu-results/tune.json")
    parser.add_argument("--authors", type=Path, metavar="DIRECTORY", help="checkouts: see benchmarks.author_kernels")
    parser.add_argument("--again", action="store_true", help="forget the results of earlier runs")
    arguments = parser.parse_args()
    deadline = time.monotonic() + 60 * arguments.minutes
    results = _earlier(arguments.json, arguments.device, arguments.again)
    for name in arguments.kernels:
        begun: dict[str, Any] = {
            "predicted": PREDICTED.get(name),
            "tries": 0,
            "error": "not begun",
            "wrong": [],
            "calls": [],
        }
        results["kernels"].setdefault(name, begun)
    _write(arguments.json, results)
    remaining = arguments.kernels
    while time.monotonic() < deadline:
        tries = {name: results["kernels"][name]["tries"] for name in remaining if results["kernels"][name]["error"]}
        if not tries:
            break
        _run_child(sorted(tries, key=tries.__getitem__), arguments, deadline)
        results = json.loads(arguments.json.read_text())
        remaining = [name for name, before in tries.items() if results["kernels"][name]["tries"] == before]
        if len(remaining) == len(tries):  # the child cannot begin
            break
    print(arguments.json.read_text())
    return int(any(result["error"] or result["wrong"] for result in results["kernels"].values()))


def _earlier(path: Path, device: str, again: bool) -> dict[str, Any]:
    """Return the results of earlier runs with this device and commit, or no results."""
    facts = {
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "commit": commit_text(),
        "torch": torch.__version__,
    }
    if path.exists() and not again:
        earlier: dict[str, Any] = json.loads(path.read_text())
        if earlier.items() >= facts.items():
            return earlier
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="minutes")
    return {**facts, "date": date, "kernels": {}}


def _write(path: Path, results: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_suffix(".new")
    written.write_text(json.dumps(results, indent=1))
    written.replace(path)


def _run_child(names: list[str], arguments: argparse.Namespace, deadline: float) -> None:
    """Run a child until it ends, or kill it after the deadline."""
    work = (names, arguments.device, arguments.json, arguments.authors, deadline)
    child = multiprocessing.get_context("spawn").Process(target=_work, args=work)
    child.start()
    child.join(deadline + SECONDS_TO_END - time.monotonic())
    if child.is_alive():
        child.kill()
    child.join()


def _work(names: list[str], device: str, path: Path, authors: Path | None, deadline: float) -> None:
    """Verify, tune and measure kernels until the deadline, and write the results after each step.

    Return early if an error has made the GPU unusable for this process.
    """
    results = json.loads(path.read_text())
    for name in names:
        with suppress(TkjitError):  # which is raised again below
            kernel = find(name)
            calls = calls_to_measure(kernel, (), _types(name))
            start_builds([(kernel, spec, variant) for spec, variant, _ in calls], device_to_measure(device))
    for name in names:
        if time.monotonic() > deadline:
            break
        result = results["kernels"][name]
        result |= {"tries": result["tries"] + 1, "error": "did not end"}
        _write(path, results)
        try:
            if authors is not None and name in MODULES:
                load_author_module(MODULES[name], authors)
            for _ in _steps(name, device, result):
                _write(path, results)
                if time.monotonic() > deadline:
                    result["error"] = "no time left"
                    break
            else:
                result["error"] = ""
        except (TkjitError, RuntimeError) as error:  # such as too little memory
            result["error"] = str(error)
        _write(path, results)
        if not _is_usable(device):
            break


def _is_usable(device: str) -> bool:
    """Return whether kernels can still be launched; after an illegal access, every call of this process fails."""
    try:
        if device == "cuda":
            torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


def _types(name: str) -> tuple[str, ...]:
    return TYPES.get(name, ("bfloat16",))


def _steps(name: str, device: str, result: dict[str, Any]) -> Iterator[None]:
    """Verify a kernel, tune it and measure its calls, except for what earlier runs have done. Yield after each step."""
    kernel, types = find(name), _types(name)
    if "verified" not in result:
        calls, loader = planned(kernel, types, {}, 0, device), loader_for(Settings.from_environment())
        outcomes = list(call_kernels(calls, kernel, loader, device))
        result["verified"] = len(outcomes)
        result["wrong"] = [f"{outcome}: {outcome.verdict}" for outcome in outcomes if not outcome.is_right]
        yield
    if name in TUNED and "tuned" not in result:
        result["tuned"] = [choice.as_json() for choice in tkjit.tune(name, types=types, device=device)]
        yield
    for call in calls_to_measure(kernel, (), types)[len(result["calls"]) :]:
        # torch.compile calls the vendor's libraries for products
        compiles = device == "cuda" and call[0].benchmark.flops is None
        measured = measure(kernel, call, device_to_measure(device), compiles, rounds=15)
        result["calls"].append(measured.as_json())
        yield


if __name__ == "__main__":
    raise SystemExit(main())
