"""Compares CUDA programs in the simulator with their own OpenMP versions, which g++ compiles, both on one core.

    python -m benchmarks.openmp_programs HECBENCH/src [NAME...]

HECBENCH is a checkout of https://github.com/zjin-lcf/HeCBench. Each program runs with two numbers of repetitions, and
the difference of their CPU times is compared, so that its input and the check of its results do not count.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Row, interleaved, report

LIMIT = 2.0
RUNS = 3


@dataclass(frozen=True)
class Program:
    """A program, and its arguments for a short and a long run.

    Parameters
    ----------
    long : str
        Arguments with more repetitions than those of ``short``. If empty, a single run counts as a whole.
    cuda : str
        What the CUDA version has as an additional argument before the last one.
    """

    short: str
    long: str = ""
    cuda: str = ""


# The kernels of both versions do the same work. A version whose OpenMP threads share an array would do less with one
# thread, because it asks for 64 of them.
PROGRAMS = {
    "aobench": Program("1", "4"),
    "concat": Program("1", "2"),
    "extrema": Program("1", "2"),
    "ga": Program("100000 100 11 1", "400000 100 11 1"),
    "gpp": Program("test"),
    "libor": Program("1", "2"),
    "lif": Program("10000 32 1", "10000 32 30"),
    "rodrigues": Program("1000000 3", "1000000 20"),
    "softmax": Program("100000 784 1", "100000 784 3", cuda="0"),
    "winograd": Program(""),
}


def cpu_seconds(program: Path, directory: Path, arguments: list[str]) -> float:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = ["taskset", "-c", str(min(os.sched_getaffinity(0))), str(program), *arguments]
    subprocess.run(command, cwd=directory, env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def with_openmp(source: Path, name: str, into: Path) -> Path:
    """Compile the OpenMP version."""
    output = into / name
    command = ["g++", "-std=c++17", "-O3", "-fopenmp", "-w", f"-I{source}/{name}-cuda", f"-I{source}/include"]
    command += [*map(str, sorted((source / f"{name}-omp").glob("*.cpp"))), "-o", str(output)]
    subprocess.run(command, check=True)
    return output


def with_tkjit(source: Path, name: str) -> Path:
    """Compile the CUDA version for the simulator."""
    command = [sys.executable, "-m", "tkjit", "run", "--build", "-I", str(source / "include")]
    command += map(str, sorted((source / f"{name}-cuda").glob("*.cu")))
    return Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def compare(source: Path, name: str, into: Path) -> Row:
    program = PROGRAMS[name]
    ours, theirs = with_tkjit(source, name), with_openmp(source, name, into)

    def seconds_of(path: Path, version: str, extra: str) -> float:
        def run(arguments: str) -> float:
            *first, last = arguments.split() or [""]
            return cpu_seconds(path, source / f"{name}-{version}", [*first, *extra.split(), *filter(None, [last])])

        return run(program.long) - run(program.short) if program.long else run(program.short)

    figures = interleaved([lambda: seconds_of(ours, "cuda", program.cuda), lambda: seconds_of(theirs, "omp", "")], RUNS)
    return Row(name, "OpenMP", figures[0], figures[1], "s", LIMIT)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="the directory src of a checkout of HeCBench")
    parser.add_argument("names", nargs="*", help="only these programs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the table as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        source = arguments.source.resolve()
        rows = [compare(source, name, Path(directory)) for name in arguments.names or PROGRAMS]
    report(rows, arguments.json)
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
