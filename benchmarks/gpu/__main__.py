"""Runs all tests and benchmarks that need a GPU, in shards that can be resumed: ``python -m benchmarks.gpu``.

A shard takes at most ``--minutes``. It is a set of tests, run in parallel on most cores, or a single benchmark. Its
result is a JSON file in the output directory, so that another run can resume after it. At the end ``results.json`` and
``results.md`` have all results. The tests run twice, the second time with nvcc for all device code. ThunderKittens'
tests run once, because nvcc always compiles these.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from benchmarks import __main__ as runner
from benchmarks.harness import ROOT, commit_text
from tkjit.system.machine import usable_cores

TESTS = "tests/*/test_gpu_*.py"
VERIFICATION = "test_gpu_thunderkittens"  # nvcc takes a minute for each test
TESTS_PER_JOB, VERIFICATIONS_PER_JOB = 12, 4
# each process needs compilers and half a gigabyte for its context on the GPU
JOBS = max(1, min(14, usable_cores() - 2))
NEEDED = {
    "pytest": "the tests",
    "pytest_timeout": "time limits",
    "xdist": "parallel tests",
    "rich": "the tables",
    "ninja": "every build",
}
PEERS = {"triton": "Triton", "cupy": "CuPy", "tvm_ffi": "tvm-ffi", "nanobind": "nanobind"}
PACKAGES = {
    "cupy": "cupy-cuda13x",
    "tvm_ffi": "apache-tvm-ffi",
    "pytest_timeout": "pytest-timeout",
    "xdist": "pytest-xdist",
}


@dataclass(frozen=True)
class Shard:
    """A set of tests or a benchmark that is run at once.

    Parameters
    ----------
    tests : tuple of str
        pytest's node ids; empty for a benchmark.
    compiler : str
        The compiler for all device code of the tests; empty to let each source choose its own.
    """

    name: str
    tests: tuple[str, ...] = ()
    benchmark: str = ""
    compiler: str = ""

    def command(self, out: Path, seconds: int) -> list[str]:
        """The command to run, which writes its own report next to the shard's result."""
        rows, xml = _reports(self, out)
        if self.benchmark:
            return [sys.executable, "-m", "benchmarks", self.benchmark, "--json", str(rows)]
        # The session timeout stops pytest between two tests, with a report; otherwise run() kills the process.
        limits = ["--session-timeout", str(max(1, seconds - 20)), "--timeout", str(seconds)]
        report = ["-q", "-p", "no:cacheprovider", "--require-gpu", f"--junitxml={xml}"]
        # pytest-benchmark would warn about xdist
        parallel = ["-p", "no:benchmark", "-n", str(min(JOBS, len(self.tests)))]
        compiler = ["--device-compiler", self.compiler] if self.compiler else []
        return [sys.executable, "-m", "pytest", *report, *parallel, *compiler, *limits, *self.tests]


@dataclass
class Result:
    """The result of a shard.

    Parameters
    ----------
    failures : list of str
        The tests that failed, each with the first line of its error.
    rows : list of dict
        A benchmark's rows, as ``python -m benchmarks --json`` writes them.
    """

    shard: str
    commit: str
    device: str
    command: list[str]
    ended: str = ""
    seconds: float = 0.0
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    output: str = ""

    @property
    def is_good(self) -> bool:
        return self.ended == "ended" and not self.failed


# ---- shards


def shards(nodes: Iterable[str]) -> list[Shard]:
    """Split the tests and ThunderKittens' kernels into shards, and add the benchmarks."""
    kernels: list[str] = []
    others: list[str] = []
    for node in nodes:
        (kernels if Path(node.split("::")[0]).stem == VERIFICATION else others).append(node)
    return [
        *_pieces("tests", others, TESTS_PER_JOB * JOBS),
        *_pieces("thunderkittens", kernels, VERIFICATIONS_PER_JOB * JOBS),
        *(Shard(name.replace(".", "-"), benchmark=name) for name in runner.GPU),
        *_pieces("tests-nvcc", others, TESTS_PER_JOB * JOBS, "nvcc"),
    ]


def _pieces(name: str, nodes: Sequence[str], size: int, compiler: str = "") -> list[Shard]:
    pieces = [tuple(nodes[begin : begin + size]) for begin in range(0, len(nodes), size)]
    return [
        Shard(f"{name}-{number}-of-{len(pieces)}", piece, compiler=compiler) for number, piece in enumerate(pieces, 1)
    ]


def collected() -> list[str]:
    """The node ids of all tests that need a GPU."""
    files = [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob(TESTS))]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "gpu", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    nodes = [line for line in done.stdout.splitlines() if line.startswith("tests/") and "::" in line]
    if not nodes:
        raise SystemExit(f"pytest collected no tests:\n{done.stdout}{done.stderr}")
    return nodes


# ---- missing packages and headers


def missing() -> tuple[list[str], list[str]]:
    """Missing requirements, and missing packages for which some tests are skipped; each with its install command."""
    import torch

    needed = [
        f"{name} is missing ({use}): pip install {PACKAGES.get(name, name)}"
        for name, use in NEEDED.items()
        if importlib.util.find_spec(name) is None
    ]
    if not torch.cuda.is_available():
        needed.append(f"torch {torch.__version__} sees no GPU")
    else:
        needed += [line for line in [_compiler()] if line]
    wanted = [
        f"{peer} is missing (its rows): pip install {PACKAGES.get(name, name)}"
        for name, peer in PEERS.items()
        if importlib.util.find_spec(name) is None
    ]
    return needed, wanted + _missing_headers()


def _compiler() -> str:
    import torch

    from tkjit.compile.targets import arch_of_capability, gpu_target
    from tkjit.config import Settings
    from tkjit.errors import TkjitError
    from tkjit.loader import loader_for

    try:
        loader_for(Settings.from_environment()).toolchain.check_arch(
            gpu_target(arch_of_capability(*torch.cuda.get_device_capability()))
        )
    except TkjitError as error:
        return str(error)
    return ""


def _missing_headers() -> list[str]:
    from tkjit.config import Settings
    from tkjit.errors import TkjitError
    from tkjit.headers import find_root
    from tkjit.spec import LIBRARIES

    hints = []
    for name in ("thunderkittens", "curand"):
        library = LIBRARIES[name]
        try:
            find_root(library, Settings.from_environment())
        except TkjitError:
            hints.append(
                f"{name} is missing (its verification): set {library.variable}, or run "
                f"python -m tkjit headers add {name}"
            )
    return hints


# ---- running


def run(shard: Shard, out: Path, seconds: int, commit: str, device: str) -> Result:
    """Run a shard, and write its result to a file."""
    command = shard.command(out, seconds)
    result = Result(shard.name, commit, device, command)
    for earlier in _reports(shard, out):  # an earlier run's reports would stay if the process were killed
        earlier.unlink(missing_ok=True)
    begun = time.monotonic()
    log = out / f"{shard.name}.log"
    with log.open("wb") as output:
        # a new session, so that the processes of its tests and their compilers are killed as well
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = process.wait(seconds)
            # pytest exits with 2 if parallel tests ran out of time
            has_report = code == 2 and _reports(shard, out)[1].is_file()
            result.ended = "ended" if code in (0, 1) or has_report else f"exit {code}"
        except subprocess.TimeoutExpired:
            result.ended = f"killed after {seconds} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    result.seconds = round(time.monotonic() - begun, 1)
    result.output = log.read_text(errors="replace")[-8000:]
    _read_reports(shard, out, result)
    (out / f"{shard.name}.json").write_text(json.dumps(asdict(result), indent=1))
    return result


def _reports(shard: Shard, out: Path) -> tuple[Path, Path]:
    """The files for a benchmark's rows and for pytest's report."""
    return out / f"{shard.name}.rows.json", out / f"{shard.name}.xml"


def _read_reports(shard: Shard, out: Path, result: Result) -> None:
    rows, xml = _reports(shard, out)
    if rows.is_file():
        result.rows = json.loads(rows.read_text())
    if xml.is_file():
        add_tests(result, xml)
    reported = result.passed + result.failed + result.skipped
    if shard.tests and reported < len(shard.tests) and result.ended == "ended":
        result.ended = f"{len(shard.tests) - reported} of {len(shard.tests)} tests not run: time ran out"


def add_tests(result: Result, xml: Path) -> None:
    """Count the tests of a JUnit report, and keep the errors. If a test has two entries, the later one counts."""
    cases = {(case.get("classname"), case.get("name")): case for case in ElementTree.parse(xml).iter("testcase")}
    for case in cases.values():
        problem = next((child for tag in ("failure", "error") if (child := case.find(tag)) is not None), None)
        if problem is not None:
            result.failed += 1
            message = (problem.get("message") or problem.text or "").strip()
            result.failures.append(f"{case.get('name')}: {message.splitlines()[0] if message else 'no message'}")
        elif case.find("skipped") is not None:
            result.skipped += 1
        else:
            result.passed += 1


def finished(shard: Shard, out: Path, commit: str) -> Result | None:
    """A shard's result for this commit, or None if it has not finished."""
    try:
        result = Result(**json.loads((out / f"{shard.name}.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None
    # on a machine with another number of cores, a shard of this name has other tests
    is_same = result.commit == commit and tuple(word for word in result.command if "::" in word) == shard.tests
    return result if is_same and result.ended == "ended" else None


# ---- the report


def markdown(results: Sequence[Result]) -> str:
    """The report: tables of the shards and of the benchmarks' rows, and the failures."""
    lines = [
        f"Device: {results[0].device}; commit {results[0].commit}; {time.strftime('%Y-%m-%d', time.gmtime())}.",
        "",
    ]
    lines += ["| shard | passed | failed | skipped | seconds | ended |", "|---|---|---|---|---|---|"]
    for each in results:
        lines.append(
            f"| {each.shard} | {each.passed} | {each.failed} | {each.skipped} | {each.seconds:.0f} | {each.ended} |"
        )
    rows = [row for each in results for row in each.rows]
    if rows:
        lines += ["", "| what | tkjit | peer | peer's | ratio |", "|---|---|---|---|---|"]
    for row in rows:
        theirs = "" if row["theirs"] is None else f"{row['theirs']:.3g} {row['unit']}"
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.3f}"
        lines.append(f"| {row['what']} | {row['ours']:.3g} {row['unit']} | {row['peer']} | {theirs} | {ratio} |")
    failures = [failure.replace("`", "'") for each in results for failure in each.failures]
    if failures:
        lines += ["", "Failures:", "", *(f"* `{failure}`" for failure in failures)]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the shards; returns 0 if every shard has finished and no test has failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=Path("gpu-results"), metavar="DIR", help="output directory (default: gpu-results)"
    )
    parser.add_argument("--minutes", type=float, default=8.0, help="limit of each shard (default: 8)")
    parser.add_argument(
        "--for", dest="budget", type=float, metavar="MINUTES", help="start no shard that could end later than this"
    )
    parser.add_argument("--only", default="", metavar="WORD", help="only shards with WORD in their names")
    parser.add_argument("--again", action="store_true", help="also run shards that have finished for this commit")
    parser.add_argument("--list", action="store_true", help="only list the shards")
    arguments = parser.parse_args(argv)

    needed, wanted = missing()
    for line in [*needed, *wanted]:
        print(line, file=sys.stderr)
    if needed and not arguments.list:
        return 1
    todo = [shard for shard in shards(collected()) if arguments.only in shard.name]
    if arguments.list:
        print(*(f"{shard.name}: {len(shard.tests) or shard.benchmark}" for shard in todo), sep="\n")
        return 0
    out = arguments.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    return _run_all(todo, out, arguments)


def _run_all(todo: Sequence[Shard], out: Path, arguments: argparse.Namespace) -> int:
    import torch

    commit, device = commit_text(), torch.cuda.get_device_name()
    seconds = int(60 * arguments.minutes)
    over = time.monotonic() + 60 * arguments.budget if arguments.budget else float("inf")
    results, remaining = [], 0
    for shard in todo:
        known = None if arguments.again else finished(shard, out, commit)
        if known is None and time.monotonic() + seconds > over:
            remaining += 1
            continue
        result = known or run(shard, out, seconds, commit, device)
        results.append(result)
        counts = f"{result.passed} passed, {result.failed} failed, {result.skipped} skipped"
        print(
            f"{shard.name}: {counts}, {result.seconds:.0f} s, {result.ended}{' in an earlier run' if known else ''}",
            flush=True,
        )
    if results:
        (out / "results.json").write_text(json.dumps([asdict(one) for one in results], indent=1))
        (out / "results.md").write_text(markdown(results))
        print(f"{out}/results.md")
    if remaining:
        print(f"{remaining} shards are left; run the same command again to resume")
    return 0 if not remaining and all(one.is_good for one in results) else 1


if __name__ == "__main__":
    sys.exit(main())
