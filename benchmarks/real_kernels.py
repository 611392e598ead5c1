"""Which sources that people have load as they are: ``python -m benchmarks.real_kernels DIRECTORY...``.

Each ``.cu`` file with a kernel or a ``PYBIND11_MODULE`` is compiled as ``tkjit.cpp_extension.load`` does it, for sm_90a
where ``TORCH_CUDA_ARCH_LIST`` names no other, with the stand-ins for torch's headers alone, and imported. One with
instructions of Blackwell's is compiled for sm_100a. A ``.cpp`` file with a ``PYBIND11_MODULE`` is loaded with all
``.cu`` files of its directory, and what calls functions of other files with those. What has no functions of tensors is
loaded by the specs that ``python -m tkjit import`` writes for it: their launchers are compiled, and opened.

A file has a process of its own with a time limit. What is known of a file that has not changed is kept in ``--state``:
a run goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

_TIMED_OUT = "not done in time"
_ARCHS = "9.0a", "10.0a"
_NEWER = re.compile(r"not supported on \.target|requires \.target|Feature '.*' (?:not supported|requires)|sm_100")
_IS_WANTED = re.compile(rb"__global__|PYBIND11_MODULE")
# those that sources like these are compiled with
FLAGS = (
    *("-O3", "--expt-relaxed-constexpr", "--expt-extended-lambda", "--use_fast_math"),
    *(f"-U__CUDA_NO_{name}__" for name in ("HALF_OPERATORS", "HALF_CONVERSIONS", "HALF2_OPERATORS")),
    "-U__CUDA_NO_BFLOAT16_CONVERSIONS__",
)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_kernels", description=__doc__.splitlines()[0])
    parser.add_argument("directories", nargs="+", type=Path)
    parser.add_argument("--state", type=Path, default=Path("real-kernels.json"), help="what is known of each file")
    parser.add_argument("--limit", type=float, default=300, help="seconds for a file")
    parser.add_argument("--flag", action="append", default=[], help="one more flag of nvcc: --flag=-DENABLE_FP8")
    parser.add_argument("--include", nargs="*", type=Path, default=[], help="directories of headers")
    parser.add_argument("--beside", nargs="*", default=[], help="directories of headers above a source: utils")
    parser.add_argument("--exclude", nargs="*", default=[], help="parts of the names of files that are left out")
    options = parser.parse_args(arguments)
    state = json.loads(options.state.read_text()) if options.state.is_file() else {}
    counts: Counter[str] = Counter()
    units = ((directory, files) for directory in options.directories for files in _units(directory, options.exclude))
    for directory, files in units:
        text = b"".join(path.read_bytes() for path in files)
        asked = [*options.flag, *map(str, options.include), *options.beside, os.environ.get("TORCH_CUDA_ARCH_LIST")]
        key = f"{files[0].absolute()} {hashlib.sha256(text + json.dumps(asked).encode()).hexdigest()[:16]}"
        found = state.get(key) or _load(files, directory, options)
        if found["reason"] != _TIMED_OUT:
            state[key] = found
            _write(options.state, json.dumps(state, indent=1))
        counts["as they are" if found["functions"] else "by a spec" if found["kernels"] else "not"] += 1
        print(f"| {files[0]} | {_said(found)} | {found['seconds']} |", flush=True)
    print(f"of {counts.total()}: {', '.join(f'{count} load {how}' for how, count in counts.items())}")


def _write(path: Path, text: str) -> None:
    """Replace a file in one step."""
    beside = path.with_suffix(".part")
    beside.write_text(text)
    beside.replace(path)


def _units(directory: Path, excluded: Sequence[str]) -> Iterator[list[Path]]:
    """The files of each module: one source, or the sources beside a ``.cpp`` file that defines it."""
    paths = sorted(path for path in directory.rglob("*.cu") if not any(part in str(path) for part in excluded))
    taken: set[Path] = set()
    for definition in sorted(directory.rglob("*.cpp")):
        beside = [path for path in paths if path.parent == definition.parent]
        if beside and b"PYBIND11_MODULE" in definition.read_bytes():
            taken.update(beside)
            yield [definition, *beside]
    for path in paths:
        if path not in taken and _IS_WANTED.search(path.read_bytes()):
            yield [path]


def _said(found: dict[str, object]) -> str:
    if found["functions"]:
        more = [f"with {', '.join(found['with'])}"] if found["with"] else []  # type: ignore[arg-type]
        more += [f"for sm_{found['arch']}"] if found["arch"] else []
        return "; ".join([str(found["functions"]), *more])
    if found["kernels"]:
        return f"by a spec of {found['lines']} lines: {found['kernels']} of {found['declared']} kernels"
    return f"no: {found['reason']}"


def _load(files: list[Path], root: Path, options: argparse.Namespace) -> dict[str, object]:
    """How many functions or kernels load, and why none does."""
    start = time.monotonic()
    environment = {"TORCH_CUDA_ARCH_LIST": _ARCHS[0], **os.environ}
    near = [parent / name for name in options.beside for parent in files[0].absolute().parents]
    directories = [str(path.absolute()) for path in (*options.include, *near) if path.is_dir()]
    flags = [*FLAGS, *options.flag]
    numbers = dict.fromkeys(("functions", "kernels", "declared", "lines"), 0)
    found: dict[str, object] = {**numbers, "with": [], "arch": "", "reason": ""}
    ways = ["module", "specs"] if len(files) == 1 else ["module"]
    for way in ways:
        left = options.limit - (time.monotonic() - start)
        given = json.dumps([way, [str(path) for path in files], directories, flags, str(root)])
        output, reason = _run([sys.executable, "-m", "benchmarks.real_loading", given], environment, left)
        if _NEWER.search(reason) and environment["TORCH_CUDA_ARCH_LIST"] == _ARCHS[0]:
            environment["TORCH_CUDA_ARCH_LIST"] = _ARCHS[1]
            found["arch"] = _ARCHS[1].replace(".", "")
            ways.insert(1, "module")
            continue
        # without functions of tensors, what keeps its kernels is the reason
        found["reason"] = reason if "no function of its sources" in str(found["reason"]) else found["reason"] or reason
        if output:
            found.update(json.loads(output))
            break
    return {**found, "seconds": round(time.monotonic() - start, 1)}


def _run(command: Sequence[str], environment: dict[str, str], limit_s: float) -> tuple[str, str]:
    """What a process says, the last line of it, or why it did not."""
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        output, errors = process.communicate(timeout=max(limit_s, 1))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "", _TIMED_OUT
    if process.returncode == 0:
        return output.strip().rpartition("\n")[2], ""
    said = [line for line in errors.splitlines() if "Error: " in line] or errors.splitlines()[-1:]
    return "", said[0] if said else f"it ended with {process.returncode}"


if __name__ == "__main__":
    main()
