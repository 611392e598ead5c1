"""Verify and check kernels of real libraries on the CPU: ``python -m benchmarks.real_libraries DIRECTORY...``.

A directory is a checkout of NVIDIA/cutlass, deepseek-ai/DeepGEMM or Dao-AILab/flash-attention; the other two need
CUTLASS. Each kernel is called through a host function with our spec, compared with torch in float64, and checked for
races and initialisation. Each runs in its own process, because TKJIT_MODEL_ARCH applies to a whole process.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.real_libraries import cutlass, deepgemm, flash_attention
from benchmarks.real_libraries.case import Case
from tkjit import HeaderLibrary
from tkjit.testing import KernelCheckError, check

CASES = {case.name: case for case in (*cutlass.CASES, *deepgemm.CASES, *flash_attention.CASES)}
# a file that identifies a checkout, and its directories of headers
LIBRARIES = {
    "cutlass": ("include/cute/tensor.hpp", ("include", "tools/util/include", "examples/cute/tutorial")),
    "deepgemm": ("deep_gemm/include/deep_gemm/impls/sm90_bf16_gemm.cuh", ("deep_gemm/include",)),
    "flash_attention": ("hopper/flash_fwd_launch_template.h", ("hopper",)),
}

LARGE_ERROR = 0.05  # above this, invalid accesses are looked for, and not races


def libraries_in(directories: Sequence[Path]) -> dict[str, HeaderLibrary]:
    return {
        name: HeaderLibrary(f"{name}_checkout", proof, include, directory.absolute(), uses_driver=True)
        for name, (proof, include) in LIBRARIES.items()
        for directory in directories
        if (directory / proof).is_file()
    }


def children() -> tuple[float, float]:
    """Return the CPU seconds of all ended child processes, and the memory of the largest in GiB."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20


def outcome(case: Case, libraries: dict[str, HeaderLibrary]) -> str:
    """The greatest relative error, CPU seconds of compilers and of the check, the largest process, and the findings."""
    kernel = case.kernel([libraries[name] for name in case.needs])
    torch.manual_seed(0)
    arguments = case.arguments()
    expected = case.results(*arguments)
    returned = kernel(*(argument.clone() for argument in arguments))
    results = returned if isinstance(returned, tuple) else (returned,)
    errors = [
        ((one.double() - exact).abs() / scale).max().item()
        for one, (exact, scale) in zip(results, expected, strict=True)
    ]
    error = torch.tensor(errors).max().item()  # NaN if any of them is
    modes = ["race", "init"] if error < LARGE_ERROR else ["memory"]
    build_s, _ = children()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            report = check(kernel, *arguments, modes=modes)
        except KernelCheckError as failure:
            report = failure.report
    found = [f"{finding.kind}: {finding.text.partition(';')[0]}" for finding in (*report.findings, *report.warnings)]
    all_s, most_gib = children()
    times = f"{build_s:.0f} s | {all_s - build_s:.0f} s | {most_gib:.1f} GiB"
    return f"{error:.1e} | {times} | {'; '.join(found) or 'none'}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_libraries", description=__doc__.splitlines()[0])
    parser.add_argument("directories", nargs="+", type=Path)
    parser.add_argument("--only", choices=CASES, help="the kernel to run in this process")
    options = parser.parse_args(arguments)
    libraries = libraries_in(options.directories)
    if not libraries:
        parser.error(f"no directory is a checkout of {', '.join(LIBRARIES)}")
    if options.only:
        case = CASES[options.only]
        os.environ["TKJIT_MODEL_ARCH"] = case.arch  # tkjit reads it at the first call
        print(f"| {options.only} | {outcome(case, libraries)} |", flush=True)
        return 0
    failed = 0
    for name, case in CASES.items():
        if set(case.needs) <= set(libraries):
            command = [
                sys.executable,
                "-m",
                "benchmarks.real_libraries",
                *map(str, options.directories),
                "--only",
                name,
            ]
            if subprocess.run(command).returncode:
                print(f"| {name} | failed |", flush=True)
                failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
