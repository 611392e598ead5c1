"""Which sources that people have load as they are: ``python -m benchmarks.real_kernels DIRECTORY...``.

Each ``.cu`` file with a kernel or a ``PYBIND11_MODULE`` is compiled as ``tkjit.cpp_extension.load`` does it, for sm_90a
where ``TORCH_CUDA_ARCH_LIST`` names no other, with the stand-ins for torch's headers alone, and imported, in a process
of its own with a time limit. What is known of a file that has not changed is kept in ``--state``: a run goes on where
it was interrupted.
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
from collections.abc import Sequence
from pathlib import Path

_RUN = """
import sys
from pathlib import Path
from tkjit.extensions.load import build_with_stand_ins
from tkjit.extensions.sources import extension_of
from tkjit.loader.modules import ModulePlan
from tkjit.extensions.sources import files_of
path = Path(sys.argv[1])
name = "".join(letter if letter.isalnum() else "_" for letter in path.stem)
directories, flags = sys.argv[2].split(":"), sys.argv[3:]


def load(files):
    extension = extension_of(name, files_of(files), cuda_flags=flags, include_paths=filter(None, directories))
    return ModulePlan.import_module(name, build_with_stand_ins(extension))


try:
    module = load([path])
except ImportError as error:
    others = [each for each in sorted(path.parent.glob("*.cu")) if each != path]
    if "undefined symbol" not in str(error) or not others:
        raise
    module = load([path, *others])  # what it calls is defined beside it
print(sum(callable(each) for each in vars(module).values()))
"""
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
    counts: Counter[bool] = Counter()
    for path in (path for directory in options.directories for path in sorted(directory.rglob("*.cu"))):
        text = path.read_bytes()
        if not _IS_WANTED.search(text) or any(part in str(path) for part in options.exclude):
            continue
        key = f"{path.absolute()} {hashlib.sha256(text).hexdigest()[:16]}"
        if key not in state:
            state[key] = _load(path, options)
            options.state.write_text(json.dumps(state, indent=1))
        found = state[key]
        counts[bool(found["functions"])] += 1
        print(f"| {path} | {found['functions'] or 'no: ' + found['reason']} | {found['seconds']} |", flush=True)
    print(f"{counts[True]} of {counts.total()} load as they are")


def _load(path: Path, options: argparse.Namespace) -> dict[str, object]:
    """How many functions a source's module has, or why there is none."""
    environment = {"TORCH_CUDA_ARCH_LIST": "9.0a", **os.environ}
    near = [parent / name for name in options.beside for parent in path.absolute().parents]
    directories = ":".join(map(str, [*map(Path.absolute, options.include), *filter(Path.is_dir, near)]))
    command = [sys.executable, "-c", _RUN, str(path), directories, *FLAGS, *options.flag]
    start = time.monotonic()
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        output, errors = process.communicate(timeout=options.limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        output, errors = "", f"not done after {options.limit:.0f} s"
    functions = int(output) if process.returncode == 0 else 0
    said = [line for line in errors.splitlines() if "Error: " in line] or errors.splitlines()[-1:]
    return {
        "functions": functions,
        "reason": "" if functions else (said[0] if said else f"it ended with {process.returncode}"),
        "seconds": round(time.monotonic() - start, 1),
    }


if __name__ == "__main__":
    main()
