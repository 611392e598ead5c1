"""Identifies the installed build of PyTorch, and compares it with the build that is loaded."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from tkjit.errors import ToolchainError
from tkjit.system import files

# These files differ between any two builds of torch, even of the same version: the first contains the commit, and the
# second is linked again for each build.
_IDENTIFYING = ("version.py", "lib/libc10.so")
_RESTART = "torch was replaced while this process was running; restart Python"


def torch_files(torch: Path) -> tuple[Path, ...]:
    """Return the files that identify a build of torch. Modules depend on these files instead of all torch headers."""
    return tuple(path for name in _IDENTIFYING if (path := torch / name).is_file())


def check_not_replaced(torch: Path, version: str) -> None:
    """Check that the installed torch is still the build that this process has loaded.

    Parameters
    ----------
    torch : Path
        The directory of torch.
    version : str
        The version that this process has imported.

    Raises
    ------
    ToolchainError
        If torch was replaced, because a module would then be compiled with the headers of another build.
    """
    with suppress(OSError, UnicodeDecodeError):
        text = files.read(torch / "version.py", follow=True).decode()
        found = re.search(r"^__version__ = '([^']*)'", text, re.MULTILINE)
        if found and found[1] != version:
            raise ToolchainError(f"torch {version} is loaded, but {torch} has torch {found[1]}: {_RESTART}")
    with suppress(OSError):
        # look for a mapped file that has since been deleted from the disk
        mapped = Path("/proc/self/maps").read_bytes().splitlines()
        if any(line.endswith(b"/libc10.so (deleted)") for line in mapped):
            raise ToolchainError(f"torch {version} is loaded, but {torch} no longer has its files: {_RESTART}")
