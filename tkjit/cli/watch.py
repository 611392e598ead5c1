"""``watch``: checks, verifies and measures a spec file again whenever one of its files changes."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tkjit.cli.new_kernel import local_includes
from tkjit.errors import SpecError, TkjitError
from tkjit.kernel_objects import find, kernels_named
from tkjit.kernel_objects.host import HostKernel
from tkjit.system.die_with_parent import dying_with_parent

_POLL_S = 0.2
_CLEAR = "\033[2J\033[H"


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("watch", help="check and verify a spec file each time one of its files is saved")
    parser.add_argument("file", type=Path, metavar="FILE.py")
    parser.add_argument("--bench", action="store_true", help="also measure the kernels at their sizes=")
    parser.add_argument("--types", default="", metavar="bfloat16", help="run only variants of these dtypes")
    parser.add_argument("--once", action="store_true", help="run everything once, and do not wait for changes")
    parser.set_defaults(run=_watch)


def _watch(arguments: argparse.Namespace) -> int:
    if not arguments.file.is_file():
        raise SpecError(f"there is no file {arguments.file}")
    options = ["--types", arguments.types] if arguments.types else []
    steps = [("check", options), ("verify", options)]
    if arguments.bench:
        steps.append(("bench", options))
    while True:
        files = _files(arguments.file)
        state = _state(files)
        print(f"{_CLEAR if sys.stdout.isatty() else ''}{time.strftime('%H:%M:%S')} {arguments.file}", flush=True)
        failed = [name for name, more in steps if not _run(name, arguments.file, more, files, state)]
        if arguments.once:
            return 1 if failed else 0
        if _state(files) == state:
            verdict = f"{', '.join(failed)} failed" if failed else "all is well"
            print(f"{verdict}; waiting for a change, Ctrl-C ends", flush=True)
        while _state(files) == state:
            time.sleep(_POLL_S)


def _run(command: str, file: Path, options: list[str], files: set[Path], state: object) -> bool:
    """Run a command until it ends, or until a file changes. Return whether it succeeded."""
    print(f"\n--- {command}", flush=True)
    process = subprocess.Popen(dying_with_parent([sys.executable, "-m", "tkjit", command, str(file), *options]))
    try:
        while process.poll() is None:
            if _state(files) != state:
                return False
            time.sleep(_POLL_S)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait()
    return process.returncode == 0


def _files(file: Path) -> set[Path]:
    """Return a spec file, its sources and the files beside them that they include."""
    files = {file.absolute()}
    try:
        for name in kernels_named([str(file)]):
            kernel = find(name)
            for spec in () if isinstance(kernel, HostKernel) else kernel.specs:
                for _, source in spec.sources:
                    if source.path is not None:
                        files |= local_includes(source.path)
    except TkjitError:
        pass  # the commands print the error; saving the spec file makes the next attempt
    return files


def _state(files: set[Path]) -> object:
    return sorted((str(path), _times(path)) for path in files)


def _times(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0  # an editor may be replacing it
    return status.st_mtime_ns, status.st_size
