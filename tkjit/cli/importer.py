"""``import``: writes a spec file from a CUDA source, with the open questions as TODO."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from tkjit.compile.flags import common_flags
from tkjit.compile.targets import gpu_target
from tkjit.config import Settings
from tkjit.errors import SpecError, ToolchainError
from tkjit.headers import find_root
from tkjit.spec import LIBRARIES, HeaderLibrary


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("import", help="write a spec from a CUDA source")
    parser.add_argument("file", type=Path, metavar="FILE.cu")
    parser.add_argument("--arch", default="90a", help="what it is parsed for: 80, 90a (the default), 100a")
    parser.add_argument(
        "--headers", nargs="+", action="extend", default=[], choices=sorted(LIBRARIES), metavar="NAME",
        help=f"header libraries that it is written on: {', '.join(sorted(LIBRARIES))}",
    )  # fmt: skip
    parser.add_argument("-I", dest="include_dirs", type=Path, action="append", default=[], metavar="DIR")
    parser.add_argument("-D", dest="defines", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--kernel", default="", metavar="NAME", help="only this one, with or without its namespace")
    parser.add_argument(
        "--instance", action="append", default=[], metavar='"KERNEL<...>"', help="of a kernel template; may be repeated"
    )
    parser.add_argument("-o", dest="output", type=Path, metavar="OUT.py", help="instead of standard output")
    parser.add_argument("--force", action="store_true", help="replace OUT.py")
    parser.set_defaults(run=_import)


def _import(arguments: argparse.Namespace) -> int:
    from tkjit.importer import Wanted, import_source

    path = _existing(arguments.file)
    if arguments.output is not None and arguments.output.exists() and not arguments.force:
        raise SpecError(f"{arguments.output} exists; --force replaces it")
    settings = Settings.from_environment()
    names = dict.fromkeys([*arguments.headers, *_around(path, settings)])
    libraries = [_locate(LIBRARIES[name], settings) for name in names]
    arch = gpu_target(arguments.arch).arch
    defines = [_define(text) for text in arguments.defines]
    include_dirs = [directory.absolute() for directory in arguments.include_dirs]
    written = import_source(
        path,
        Wanted(arguments.kernel, tuple(arguments.instance)),
        _clang_arguments(settings, arch, libraries, include_dirs, defines),
        _place(path, arguments.output, libraries, include_dirs, defines),
    )
    _deliver(written.text, arguments.output)
    if written.undecided:
        print(f"to be decided ({len(written.undecided)}):", file=sys.stderr)
    for line in written.undecided:
        print(f"  {line}", file=sys.stderr)
    return 0


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise SpecError(f"{path}: there is no such file")
    return path.absolute()


def _around(path: Path, settings: Settings) -> list[str]:
    """The header libraries in which a source lies."""
    found = []
    for name, library in LIBRARIES.items():
        with suppress(ToolchainError):
            root = find_root(library, settings)
            if root is not None and path.is_relative_to(root):
                found.append(name)
    return found


def _locate(library: HeaderLibrary, settings: Settings) -> HeaderLibrary:
    from dataclasses import replace

    return replace(library, root=find_root(library, settings))


def _define(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not name.isidentifier():
        raise SpecError(f"-D {text}: expected NAME or NAME=VALUE")
    return name, value if "=" in text else "1"


def _clang_arguments(
    settings: Settings,
    arch: str,
    libraries: list[HeaderLibrary],
    include_dirs: list[Path],
    defines: list[tuple[str, str]],
) -> list[str]:
    """The flags of the kernel's compilation, as far as clang's front end has them too."""
    from tkjit.importer.clang import arguments_for
    from tkjit.loader import loader_for

    own = [path for library in libraries for path in library.include_paths]
    flags, _ = common_flags(flag for library in libraries for flag in library.flags)
    flags += [f"-D{name}" for library in libraries for name in library.defines_for(arch)]
    flags += [f"-D{name}={value}" for name, value in defines]
    root = loader_for(settings).toolchain.cuda_root
    return arguments_for(arch, root, [*include_dirs, *own], flags, "c++20")


def _place(
    path: Path,
    output: Path | None,
    libraries: list[HeaderLibrary],
    include_dirs: list[Path],
    defines: list[tuple[str, str]],
) -> Any:
    """How the spec names the source and its directories: relative to itself, or within a header library."""
    from tkjit.importer import Place

    directory = output.absolute().parent if output else path.parent
    inside = [library for library in libraries if library.root and path.is_relative_to(library.root)]
    source = (
        f"<{inside[0].name}>/{path.relative_to(inside[0].root or '')}" if inside else os.path.relpath(path, directory)
    )
    return Place(
        source,
        path.stem,
        tuple(library.name for library in libraries),
        tuple(os.path.relpath(include_dir, directory) for include_dir in include_dirs),
        tuple(defines),
    )


def _deliver(text: str, output: Path | None) -> None:
    if output is None:
        print(text, end="")
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ToolchainError(f"{output} cannot be written: {error.strerror}") from None
    print(f"{output}", file=sys.stderr)
