"""Which real sources load unchanged: ``python -m benchmarks.real_kernels DIRECTORY...``.

Each ``.cu`` file with a kernel or a ``PYBIND11_MODULE`` is compiled as by ``tkjit.cpp_extension.load``, but only with
the stand-ins for torch's headers, and imported. The architecture is that in ``TORCH_CUDA_ARCH_LIST`` or sm_90a, but
sm_100a for a file with instructions of Blackwell. A ``.cpp`` file with a ``PYBIND11_MODULE`` is loaded with all ``.cu``
files of its directory. A file that calls functions of other files is loaded together with these. A file without
functions of tensors is loaded through the specs that ``python -m tkjit import`` writes: their launchers are compiled
and opened.

Each file has its own process with a time limit. Results of unchanged files are kept in ``--state``, so an interrupted
run resumes.
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

_TIMED_OUT = "timed out"
_ARCHS = "9.0a", "10.0a"
_NEWER = re.compile(r"not supported on \.target|requires \.target|Feature '.*' (?:not supported|requires)|sm_100")
_IS_WANTED = re.compile(rb"__global__|PYBIND11_MODULE")
# the usual flags of such sources
FLAGS = (
    *("-O3", "--expt-relaxed-constexpr", "--expt-extended-lambda", "--use_fast_math"),
    *(f"-U__CUDA_NO_{name}__" for name in ("HALF_OPERATORS", "HALF_CONVERSIONS", "HALF2_OPERATORS")),
    "-U__CUDA_NO_BFLOAT16_CONVERSIONS__",
)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_kernels", description=__doc__.splitlines()[0])
    parser.add_argument("directories", nargs="+", type=Path)
    parser.add_argument("--state", type=Path, default=Path("real-kernels.json"), help="the results so far")
    parser.add_argument("--limit", type=float, default=300, help="seconds for each file")
    parser.add_argument("--flag", action="append", default=[], help="another flag for nvcc: --flag=-DENABLE_FP8")
    parser.add_argument("--include", nargs="*", type=Path, default=[], help="directories of headers")
    parser.add_argument(
        "--beside", nargs="*", default=[], help="names of header directories next to or above a source: utils"
    )
    parser.add_argument("--exclude", nargs="*", default=[], help="skip files with one of these in their paths")
    options = parser.parse_args(arguments)
    state = json.loads(options.state.read_text()) if options.state.is_file() else {}
    counts: Counter[str] = Counter()
    units = ((directory, files) for directory in options.directories for files in _units(directory, options.exclude))
    for directory, files in units:
        text = b"".join(path.read_bytes() for path in files)
        inputs = [*options.flag, *map(str, options.include), *options.beside, os.environ.get("TORCH_CUDA_ARCH_LIST")]
        key = f"{files[0].absolute()} {hashlib.sha256(text + json.dumps(inputs).encode()).hexdigest()[:16]}"
        result = state.get(key) or _load(files, directory, options)
        if result["reason"] != _TIMED_OUT:
            state[key] = result
            _write(options.state, json.dumps(state, indent=1))
        outcome = (
            "load unchanged" if result["functions"] else "load with a spec" if result["kernels"] else "do not load"
        )
        counts[outcome] += 1
        print(f"| {files[0]} | {_said(result)} | {result['seconds']} |", flush=True)
    print(f"of {counts.total()}: {', '.join(f'{count} {how}' for how, count in counts.items())}")


def _write(path: Path, text: str) -> None:
    """Replace a file atomically."""
    temporary = path.with_suffix(".part")
    temporary.write_text(text)
    temporary.replace(path)


def _units(directory: Path, excluded: Sequence[str]) -> Iterator[list[Path]]:
    """The files of each module: one source, or a ``.cpp`` file that defines the module and the sources next to it."""
    paths = sorted(path for path in directory.rglob("*.cu") if not any(part in str(path) for part in excluded))
    used: set[Path] = set()
    for definition in sorted(directory.rglob("*.cpp")):
        siblings = [path for path in paths if path.parent == definition.parent]
        if siblings and b"PYBIND11_MODULE" in definition.read_bytes():
            used.update(siblings)
            yield [definition, *siblings]
    for path in paths:
        if path not in used and _IS_WANTED.search(path.read_bytes()):
            yield [path]


def _said(found: dict[str, object]) -> str:
    if found["functions"]:
        more = [f"with {', '.join(found['with'])}"] if found["with"] else []  # type: ignore[arg-type]
        more += [f"for sm_{found['arch']}"] if found["arch"] else []
        return "; ".join([str(found["functions"]), *more])
    if found["kernels"]:
        return f"with specs of {found['lines']} lines: {found['kernels']} of {found['declared']} kernels"
    return f"no: {found['reason']}"


def _load(files: list[Path], root: Path, options: argparse.Namespace) -> dict[str, object]:
    """The number of functions or kernels that load, or the reason why none does."""
    start = time.monotonic()
    environment = {"TORCH_CUDA_ARCH_LIST": _ARCHS[0], **os.environ}
    near = [parent / name for name in options.beside for parent in files[0].absolute().parents]
    directories = [str(path.absolute()) for path in (*options.include, *near) if path.is_dir()]
    flags = [*FLAGS, *options.flag]
    numbers = dict.fromkeys(("functions", "kernels", "declared", "lines"), 0)
    result: dict[str, object] = {**numbers, "with": [], "arch": "", "reason": ""}
    ways = ["module", "specs"] if len(files) == 1 else ["module"]
    for way in ways:
        seconds_left = options.limit - (time.monotonic() - start)
        request = json.dumps([way, [str(path) for path in files], directories, flags, str(root)])
        output, reason = _run([sys.executable, "-m", "benchmarks.real_loading", request], environment, seconds_left)
        if _NEWER.search(reason) and environment["TORCH_CUDA_ARCH_LIST"] == _ARCHS[0]:
            environment["TORCH_CUDA_ARCH_LIST"] = _ARCHS[1]
            result["arch"] = _ARCHS[1].replace(".", "")
            ways.insert(1, "module")
            continue
        # For a file without functions of tensors, the reason is that of its kernels.
        result["reason"] = (
            reason if "no function of its sources" in str(result["reason"]) else result["reason"] or reason
        )
        if output:
            result.update(json.loads(output))
            break
    return {**result, "seconds": round(time.monotonic() - start, 1)}


def _run(command: Sequence[str], environment: dict[str, str], limit_s: float) -> tuple[str, str]:
    """The last line that a process prints, or the reason why it failed."""
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
    messages = [line for line in errors.splitlines() if "Error: " in line] or errors.splitlines()[-1:]
    return "", messages[0] if messages else f"exit status {process.returncode}"


if __name__ == "__main__":
    main()
