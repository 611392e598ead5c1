"""``import``: writes a spec file for a CUDA source, with a TODO for each open question."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tkjit.compile.flags import CUDA_LIBRARIES, STAND_INS, common_flags
from tkjit.compile.targets import gpu_target
from tkjit.config import Settings
from tkjit.errors import SpecError, ToolchainError
from tkjit.headers import find_root
from tkjit.spec import LIBRARIES, HeaderLibrary

if TYPE_CHECKING:
    from tkjit.importer import Written

DEEPEST = 5000
_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"\n]+)[>"]', re.MULTILINE)


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("import", help="write the specs of the kernels in a CUDA source")
    parser.add_argument("file", type=Path, metavar="FILE.cu", help="CUDA source to import")
    parser.add_argument("--arch", default="90a", help="GPU architecture to parse the source for (default: 90a)")
    parser.add_argument(
        "--headers", nargs="+", action="extend", default=[], choices=sorted(LIBRARIES), metavar="NAME",
        help=f"header libraries that the source uses: {', '.join(sorted(LIBRARIES))}",
    )  # fmt: skip
    parser.add_argument(
        "-I",
        dest="include_dirs",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="directory to search for headers",
    )
    parser.add_argument("-D", dest="defines", action="append", default=[], metavar="NAME=VALUE", help="macro to define")
    parser.add_argument(
        "--kernel", default="", metavar="NAME", help="import only this kernel, named with or without its namespace"
    )
    parser.add_argument(
        "--instance",
        action="append",
        default=[],
        metavar='"KERNEL<...>"',
        help="instance of a kernel template to import; may be repeated",
    )
    parser.add_argument(
        "-o", dest="output", type=Path, metavar="OUT.py", help="spec file to write (default: standard output)"
    )
    parser.add_argument(
        "--run", dest="runs", action="store_true", help="call each imported kernel once in the simulator"
    )
    parser.add_argument("--force", action="store_true", help="replace OUT.py if it exists")
    parser.set_defaults(run=_import)


def _import(arguments: argparse.Namespace) -> int:
    from tkjit.importer import Wanted, import_source

    path = _existing(arguments.file)
    if arguments.output is not None and arguments.output.exists() and not arguments.force:
        raise SpecError(f"{arguments.output} exists; --force replaces it")
    settings = Settings.from_environment()
    include_dirs = [directory.absolute() for directory in arguments.include_dirs]
    names = dict.fromkeys([*arguments.headers, *_around(path, settings)])
    if _includes_torch(path, include_dirs):
        names["torch"] = None
    libraries = [_locate(LIBRARIES[name], settings) for name in names]
    arch = gpu_target(arguments.arch).arch
    defines = [_define(text) for text in arguments.defines]
    written = import_source(
        path,
        Wanted(arguments.kernel, tuple(arguments.instance)),
        _clang_arguments(settings, arch, libraries, include_dirs, defines),
        _place(path, arguments.output, libraries, include_dirs, defines),
        _compiler(settings),
    )
    _deliver(written.text, arguments.output)
    if written.undecided:
        print(f"to be decided ({len(written.undecided)}):", file=sys.stderr)
    for line in written.undecided:
        print(f"  {line}", file=sys.stderr)
    if arguments.runs:
        _try(written, arguments.output, path)
    return 0


def _try(written: Written, output: Path | None, source: Path) -> None:
    """Call each written kernel once, with the sizes found in the source."""
    from tkjit.cli.try_kernel import try_kernel

    print("called once in the simulator:", file=sys.stderr)
    with nullcontext(output) if output is not None else _file_next_to(source, written.text) as file:
        for name, sizes in written.sizes.items():
            has_todo = name in written.incomplete
            result = f"{name}: not called, because its launch has a TODO" if has_todo else try_kernel(file, name, sizes)
            print(f"  {result}", file=sys.stderr)


@contextmanager
def _file_next_to(source: Path, text: str) -> Iterator[Path]:
    """Write a temporary file next to the source, because the paths in a spec are relative to its file."""
    from tempfile import NamedTemporaryFile

    try:
        file = NamedTemporaryFile("w", dir=source.parent, prefix=".tkjit-import-", suffix=".py")  # noqa: SIM115 - closed below
    except OSError as error:
        raise SpecError(
            f"--run cannot write a file next to the source: {error}; choose another place with -o"
        ) from None
    with file:
        file.write(text)
        file.flush()
        yield Path(file.name)


def _existing(path: Path) -> Path:
    if path.is_dir():
        raise SpecError(f"{path} is a directory; expected a CUDA source")
    if not path.is_file():
        raise SpecError(f"{path}: there is no such file")
    if (depth := _depth_of_brackets(path)) > DEEPEST:
        raise SpecError(f"{path}: brackets are nested {depth:,} deep; the parser supports up to {DEEPEST:,}")
    return path.absolute()


def _depth_of_brackets(path: Path) -> int:
    """Return how deep brackets are nested. Deep nesting overflows libclang's stack and kills the process."""
    brackets = re.sub(rb"[^][(){}]", b"", path.read_bytes())
    return max(accumulate((1 if bracket in b"([{" else -1 for bracket in brackets), initial=0))


def _around(path: Path, settings: Settings) -> list[str]:
    """Return the names of the header libraries whose directories contain a source."""
    found = []
    for name, library in LIBRARIES.items():
        with suppress(ToolchainError):
            root = find_root(library, settings)
            if root is not None and path.is_relative_to(root):
                found.append(name)
    return found


def _includes_torch(path: Path, include_dirs: list[Path]) -> bool:
    """Return whether a source includes torch's headers, directly or through its own headers."""
    seen, waiting = {path}, [path]
    while waiting:
        file = waiting.pop()
        for name in _INCLUDE.findall(file.read_text(encoding="utf-8", errors="replace")):
            if name.startswith(("torch/", "ATen/", "c10/")):
                return True
            found = next(
                (p for d in (file.parent, *include_dirs) if (p := Path(os.path.normpath(d / name))).is_file()), None
            )
            if found is not None and found not in seen:
                seen.add(found)
                waiting.append(found)
    return False


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
    """Return the kernel's compiler flags, without those that clang's front end does not support."""
    from tkjit.importer.clang import arguments_for
    from tkjit.loader import loader_for

    stand_ins = [STAND_INS / name for library in libraries for name in library.stand_ins]
    own = [*stand_ins, *(path for library in libraries for path in library.include_paths), CUDA_LIBRARIES]
    flags, _ = common_flags(flag for library in libraries for flag in library.flags)
    flags += [f"-D{name}" for library in libraries for name in library.defines_for(arch)]
    flags += [f"-D{name}={value}" for name, value in defines]
    root = loader_for(settings).toolchain.cuda_root
    return arguments_for(arch, root, [*include_dirs, *own], flags, "c++20")


def _compiler(settings: Settings) -> Path | None:
    from tkjit.loader import loader_for

    with suppress(ToolchainError):
        return loader_for(settings).toolchain.cxx.path
    return None


def _place(
    path: Path,
    output: Path | None,
    libraries: list[HeaderLibrary],
    include_dirs: list[Path],
    defines: list[tuple[str, str]],
) -> Any:
    """Return the paths and options that the spec file will contain.

    The paths are relative to the spec file. If the source is in a header library, its path is relative to the library.
    """
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
        raise ToolchainError(f"cannot write {output}: {error.strerror}") from None
    print(f"{output}", file=sys.stderr)
