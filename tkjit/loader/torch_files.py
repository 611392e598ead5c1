"""Identifies the installed PyTorch build, and compares it with the loaded PyTorch."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from tkjit.errors import ToolchainError
from tkjit.system import files

# they differ between any two builds of torch, even of one version: one has the commit, the other is linked again
_TELLING = ("version.py", "lib/libc10.so")
_RESTART = "torch was replaced while this process runs; start Python anew"


def torch_files(torch: Path) -> tuple[Path, ...]:
    """The files that identify a build of torch: a module depends on them instead of all of torch's headers."""
    return tuple(path for name in _TELLING if (path := torch / name).is_file())


def check_not_replaced(torch: Path, version: str) -> None:
    """Refuse to compile for the torch of this process with the headers of another one.

    Parameters
    ----------
    torch : Path
        Its directory.
    version : str
        The version that this process has imported.

    Raises
    ------
    ToolchainError
    """
    with suppress(OSError, UnicodeDecodeError):
        text = files.read(torch / "version.py", follow=True).decode()
        found = re.search(r"^__version__ = '([^']*)'", text, re.MULTILINE)
        if found and found[1] != version:
            raise ToolchainError(f"torch {version} is loaded, and torch {found[1]} lies in {torch}: {_RESTART}")
    with suppress(OSError):
        # a mapped file that has been deleted from the disk
        mapped = Path("/proc/self/maps").read_bytes().splitlines()
        if any(line.endswith(b"/libc10.so (deleted)") for line in mapped):
            raise ToolchainError(f"the torch {version} that is loaded lies in {torch} no more: {_RESTART}")
