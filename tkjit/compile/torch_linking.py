"""Linking a module with torch without reading its largest library."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LARGEST = "torch_cpu"


@contextmanager
def quick_torch_linking(cxx: Path, directory: Path) -> Iterator[list[str]]:
    """The linker's flags before those of ``load_inline``, for as long as it runs in this directory.

    Of libtorch_cpu.so, 400 MB, a linker reads all symbols to find that a few dozen are there, which takes it 0.2 s. An
    empty library stands in its place. Nothing in it is needed, so no module names it; the true one comes with
    libtorch_python.so, which a module names instead.
    """
    import torch

    named = Path(torch.__file__).parent / "lib/libtorch_python.so"
    empty = directory / f"lib{_LARGEST}.so"
    # it is there long before load_inline links; without it the linker finds the true one
    command = [str(cxx), "-shared", "-nostdlib", "-x", "c", os.devnull, "-o", str(empty)]
    making = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield ["-Wl,--no-as-needed", str(named), "-Wl,--as-needed", "-L."] if named.is_file() else []
    finally:
        making.wait()
        with suppress(OSError):
            empty.unlink()
