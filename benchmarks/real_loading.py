"""Loads the sources of one real module, or their kernels, in a process of ``benchmarks.real_kernels``.

``python -m benchmarks.real_loading '["module", [FILE...], [INCLUDE_DIRECTORY...], [FLAG...], ROOT]'`` prints JSON.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from tkjit.cli import main as run_command
from tkjit.compile.targets import gpu_target
from tkjit.config import Settings
from tkjit.extensions.load import build_with_stand_ins
from tkjit.extensions.sources import extension_of, files_of
from tkjit.kernel_objects import Kernel
from tkjit.loader import loader_for
from tkjit.loader.modules import ModulePlan
from tkjit.spec import variants_of

_MOST_FILES = 4
_OPEN = "TODO"  # an unknown part of a launch in an imported spec


def load_module(files: list[Path], directories: Sequence[str], flags: Sequence[str], root: Path) -> dict[str, object]:
    """The number of functions in the module of these sources, and the other files below ``root`` that it needs."""
    sources = list(files)
    while True:
        try:
            module = _module(sources, directories, flags)
            break
        except ImportError as error:
            missing = re.search(r"undefined symbol: (\w+)", str(error))
            other = _file_that_defines(missing[1], root, sources) if missing and len(sources) < _MOST_FILES else None
            if other is None:
                raise
            sources.append(other)
    count = sum(callable(each) for each in vars(module).values())
    return {"functions": count, "with": [str(path.relative_to(root)) for path in sources[len(files) :]]}


def _file_that_defines(symbol: str, root: Path, known: Sequence[Path]) -> Path | None:
    """The source that defines a function, found by the function's name."""
    shown = subprocess.run(["c++filt", symbol], capture_output=True, text=True, check=True).stdout
    name = re.sub(r"<.*", "", shown.partition("(")[0]).split()[-1].rpartition("::")[2]
    defines = re.compile(rf"\b{re.escape(name)}\s*\([^;{{}}]*\)\s*\{{")
    sources = (path for path in sorted(root.rglob("*.cu")) if path not in known and "rocm" not in str(path))
    return next((path for path in sources if defines.search(path.read_text(errors="replace"))), None)


def _module(files: Sequence[Path], directories: Sequence[str], flags: Sequence[str]) -> ModuleType:
    name = "".join(letter if letter.isalnum() else "_" for letter in files[0].stem)
    extension = extension_of(name, files_of(files), cuda_flags=flags, include_paths=directories)
    return ModulePlan.import_module(name, build_with_stand_ins(extension))


def load_kernels(path: Path, directories: Sequence[str], flags: Sequence[str]) -> dict[str, int]:
    """The number of a source's kernels that load with the importer's specs, one variant each."""
    options = [option for directory in directories for option in ("-I", directory)]
    options += [option for flag in flags if flag.startswith("-D") for option in ("-D", flag[2:])]
    with tempfile.TemporaryDirectory() as temporary:  # a spec's paths are relative to its file
        spec_file = Path(temporary) / "specs.py"
        if run_command(["import", str(path), *options, "-o", str(spec_file)]) != 0:
            sys.exit(1)  # the command has printed the reason
        kernels = [each for each in runpy.run_path(str(spec_file)).values() if isinstance(each, Kernel)]
        return _loaded(kernels, spec_file.read_text())


def _loaded(kernels: Sequence[Kernel], text: str) -> dict[str, int]:
    loader = loader_for(Settings.from_environment())
    target = gpu_target(os.environ["TORCH_CUDA_ARCH_LIST"].replace(".", ""))
    lines, loaded, reason = 0, 0, ""
    for kernel in kernels:
        spec = kernel.specs[0]
        if any(str(part) == _OPEN for _, part in spec.launch.shape):
            reason = reason or f"{kernel.name}: its launch is unknown"
            continue
        try:
            loader.open(loader.launcher_plan(spec, variants_of(spec)[0], target))
            loader.open_glue(kernel.specs, lambda: None)
        except Exception as error:
            messages = [line for line in str(error).splitlines() if "error" in line] or str(error).splitlines()
            reason = reason or f"{kernel.name}: {messages[0]}"
            continue
        loaded += 1
        lines += _lines_of(text, kernel.name)
    if not loaded:
        raise SystemExit(f"Error: {reason or 'no kernel'}")
    return {"kernels": loaded, "declared": len(kernels), "lines": lines}


def _lines_of(text: str, name: str) -> int:
    """The number of lines of a kernel's spec, without comments."""
    (spec,) = (part for part in text.split("\n\n\n") if f"\ndef {name}(" in part)
    return sum(not line.strip().startswith("#") for line in spec.splitlines())


if __name__ == "__main__":
    way, names, directories, flags, root = json.loads(sys.argv[1])
    files = [Path(name).absolute() for name in names]
    if way == "module":
        print(json.dumps(load_module(files, directories, flags, Path(root).absolute())))
    else:
        print(json.dumps(load_kernels(files[0], directories, flags)))
