"""Linking a module with torch without reading its largest library."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LARGEST = "libtorch_cpu.so"
_NAMED = "/lib/libtorch_python.so"
_BEFORE, _AFTER = "-Wl,--no-as-needed", ("-Wl,--as-needed", "-L.")


@contextmanager
def quick_torch_linking(cxx: Path, directory: Path) -> Iterator[list[str]]:
    """The linker's flags before those of ``load_inline``, for as long as it runs in this directory.

    Of libtorch_cpu.so, 400 MB, a linker reads all symbols to find that a few dozen are there, which takes it 0.2 s. An
    empty library stands in its place. Nothing in it is needed, so no module names it; the true one comes with
    libtorch_python.so, which a module names instead. Where that lies elsewhere, or an empty library cannot be made,
    there are no flags.
    """
    import torch

    named = Path(f"{Path(torch.__file__).parent}{_NAMED}")
    try:
        yield [_BEFORE, str(named), *_AFTER] if named.is_file() and _make_empty(cxx, directory) else []
    finally:
        with suppress(OSError):
            (directory / _LARGEST).unlink()


def without_own(flags: Iterable[str]) -> list[str]:
    """A linker's flags without those of ``quick_torch_linking``."""
    return [flag for flag in flags if flag not in (_BEFORE, *_AFTER) and not flag.endswith(_NAMED)]


def _make_empty(cxx: Path, directory: Path) -> bool:
    import subprocess  # a warm process has no use for it

    command = [str(cxx), "-shared", "-nostdlib", "-x", "c", os.devnull, "-o", _LARGEST]
    try:
        # in the directory by which a build's compilers are found
        done = subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0
