"""Linking a module with torch without reading its largest library."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subprocess import Popen

_LARGEST = "libtorch_cpu.so"
_NAMED = "lib/libtorch_python.so"
_BEFORE, _AFTER = "-Wl,--no-as-needed", ("-Wl,--as-needed", "-L.")


@contextmanager
def quick_torch_linking(cxx: Path, directory: Path) -> Iterator[Callable[[], list[str]]]:
    """What says the linker's flags before those of ``load_inline``, for as long as it runs in this directory.

    Of libtorch_cpu.so, 400 MB, a linker reads all symbols to find that a few dozen are there, which takes it 0.2 s. An
    empty library stands in its place. Nothing in it is needed, so no module names it; the true one comes with
    libtorch_python.so, which a module names instead. Where that lies elsewhere, or an empty library cannot be made,
    there are no flags.
    """
    import torch

    named = Path(torch.__file__).parent / _NAMED
    making = _make_empty(cxx, directory) if named.is_file() else None

    def flags() -> list[str]:
        return [_BEFORE, str(named), *_AFTER] if making is not None and making.wait() == 0 else []

    try:
        yield flags
    finally:
        if making is not None:
            making.kill()
            making.wait()
        with suppress(OSError):
            (directory / _LARGEST).unlink()


def without_own(flags: Iterable[str]) -> list[str]:
    """A linker's flags without those of ``quick_torch_linking``."""
    return [flag for flag in flags if flag not in (_BEFORE, *_AFTER) and not flag.endswith(f"/{_NAMED}")]


def _make_empty(cxx: Path, directory: Path) -> Popen[bytes] | None:
    """Begin to: it takes 30 ms, in which torch's extensions are imported.

    In the directory by which a build's compilers are found.
    """
    import subprocess  # a warm process has no use for it

    command = [str(cxx), "-shared", "-nostdlib", "-x", "c", os.devnull, "-o", _LARGEST]
    nothing = subprocess.DEVNULL
    with suppress(OSError):
        return subprocess.Popen(command, cwd=directory, stdin=nothing, stdout=nothing, stderr=nothing)
    return None
