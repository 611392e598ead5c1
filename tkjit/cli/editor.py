"""``editor``: writes a compilation database, with which clangd understands the sources of kernels."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tkjit.compile.flags import Flags, launcher_flags
from tkjit.compile.targets import Target, cpu_target, gpu_target
from tkjit.config import Settings
from tkjit.errors import SpecError
from tkjit.kernel_objects import Kernel, find, kernels_named
from tkjit.render.launcher import declarations
from tkjit.spec import Source, Spec
from tkjit.spec.variants import configured, variants_of
from tkjit.system import files

_DATABASE, _SETTINGS, _HEADERS = "compile_commands.json", ".clangd", ".tkjit"
_CLANGD = """\
# Written by `tkjit editor`, once; the compiler's arguments are in compile_commands.json.
Diagnostics:
  UnusedIncludes: None  # a header of device code is often needed only by the compiler for the GPU
"""


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("editor", help="write compile_commands.json for editors that use clangd")
    parser.add_argument("names", nargs="+", metavar="NAME", help="FILE.py, kernel or package whose sources you edit")
    parser.add_argument(
        "--arch",
        default="cpu",
        metavar="90a",
        help="GPU architecture for which the editor reads the sources (default: the simulator, which needs no toolkit)",
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=Path(), metavar="DIR", help="directory above the sources (default: .)"
    )
    parser.set_defaults(run=_editor)


def _editor(arguments: argparse.Namespace) -> int:
    target = cpu_target() if arguments.arch == "cpu" else gpu_target(arguments.arch)
    directory = arguments.output.absolute()
    if not directory.is_dir():
        raise SpecError(f"there is no directory {arguments.output}")
    kernels = [find(name) for name in kernels_named(arguments.names)]
    sources = dict(_sources(kernels))
    if not sources:
        raise SpecError(f"{', '.join(arguments.names)}: no kernel has its source in a file")
    outside = [path for path in sources if not path.is_relative_to(directory)]
    if outside:
        raise SpecError(
            f"{outside[0]} is outside of {directory}, so clangd would not find its command; choose a directory above "
            "it with -o"
        )
    before = _existing(directory / _DATABASE)
    entries = {
        str(path): _entry(path, spec, target, directory / _HEADERS / _header_name(path.relative_to(directory)))
        for path, spec in sources.items()
    }
    others = [entry for entry in before if entry.get("file") not in entries]
    database = directory / _DATABASE
    files.write(database, json.dumps([*others, *entries.values()], indent=2) + "\n")
    if not (directory / _SETTINGS).exists():
        files.write(directory / _SETTINGS, _CLANGD)
    print(f"wrote {database}: {len(entries)} {'source' if len(entries) == 1 else 'sources'}")
    return 0


def _header_name(source: Path) -> str:
    return "_".join(source.with_suffix(".h").parts)


def _sources(kernels: list[Kernel]) -> Iterator[tuple[Path, Spec]]:
    """Yield the files that kernels are compiled from, each with the first spec that uses it."""
    seen = set[Path]()
    for spec in (spec for kernel in kernels for spec in kernel.specs):
        for _, source in spec.sources:
            path = _path(source)
            if path is not None and path not in seen:
                seen.add(path)
                yield path, spec


def _path(source: Source) -> Path | None:
    return source.path.absolute() if source.path is not None and source.path.is_file() else None


def _entry(path: Path, spec: Spec, target: Target, header: Path) -> dict[str, object]:
    """Return the database's entry of a source, and write the header with the declarations that tkjit puts before it."""
    variant = configured(spec, variants_of(spec)[0])
    header.parent.mkdir(exist_ok=True)
    files.write(header.with_name(".gitignore"), "*\n")
    files.write(header, "\n".join(["#pragma once", *declarations(spec, variant)]))
    flags = launcher_flags(spec, target, path.parent)
    language = _for_simulator() if target.is_cpu else _for_gpu(target)
    arguments = ["clang++", *language, *_read_by_clang(flags), "-include", str(header), str(path)]
    return {"directory": str(path.parent), "file": str(path), "arguments": arguments}


def _for_simulator() -> list[str]:
    # clang looks at the conditions of #elif branches that are not taken, where the simulator rejects __CUDA_ARCH__
    return ["-x", "c++", "-DTKJIT_SIM_SYSTEM_ASKS_ARCH"]


def _for_gpu(target: Target) -> list[str]:
    from tkjit.loader import loader_for

    toolkit = loader_for(Settings.from_environment()).toolchain.cuda_root
    device = ["-x", "cuda", "--cuda-device-only", f"--cuda-gpu-arch=sm_{target.arch}"]
    return [*device, f"--cuda-path={toolkit}", "-nocudalib", "-Wno-unknown-cuda-version"]


def _read_by_clang(flags: Flags) -> list[str]:
    """Return the flags that decide what a source means, without those for code generation."""
    return [*(flag for flag in flags.compile if flag.startswith(("-D", "-std="))), *flags.paths]


def _existing(database: Path) -> list[dict[str, Any]]:
    if not database.exists():
        return []
    try:
        entries = json.loads(database.read_text())
    except (OSError, ValueError) as error:
        raise SpecError(f"{database} cannot be read as a compilation database ({error}); remove it first") from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise SpecError(f"{database} is not a list of commands; remove it first")
    return entries
