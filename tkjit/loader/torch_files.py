"""Identifies the installed PyTorch build, and compares it with the loaded PyTorch."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from tkjit.errors import ToolchainError
from tkjit.system import files

# these differ between any two builds of torch, even of one version: the first has the commit, the second is relinked
_IDENTIFYING = ("version.py", "lib/libc10.so")
_RESTART = "torch was replaced while this process was running; restart Python"


def torch_files(torch: Path) -> tuple[Path, ...]:
    """The files that identify a build of torch. A module depends on them instead of all of torch's headers."""
    return tuple(path for name in _IDENTIFYING if (path := torch / name).is_file())


def check_not_replaced(torch: Path, version: str) -> None:
    """Check that the installed torch is still the one that this process has loaded.

    Parameters
    ----------
    torch : Path
        The directory of torch.
    version : str
        The version that this process has imported.

    Raises
    ------
    ToolchainError
        If it was replaced: a module would be compiled with the headers of another build.
    """
    with suppress(OSError, UnicodeDecodeError):
        text = files.read(torch / "version.py", follow=True).decode()
        found = re.search(r"^__version__ = '([^']*)'", text, re.MULTILINE)
        if found and found[1] != version:
            raise ToolchainError(f"torch {version} is loaded, but {torch} has torch {found[1]}: {_RESTART}")
    with suppress(OSError):
        # a mapped file that has been deleted from the disk
        mapped = Path("/proc/self/maps").read_bytes().splitlines()
        if any(line.endswith(b"/libc10.so (deleted)") for line in mapped):
            raise ToolchainError(f"torch {version} is loaded, but {torch} no longer has its files: {_RESTART}")
