"""Disassembles compiled launchers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tkjit.compile.resources import demangle, named_by
from tkjit.errors import ToolchainError

# the listing of a cubin shows the architecture in a different format, hence two patterns
_ARCH = re.compile(r"^(?:arch = |\t\.target\t)(sm_\w+)", re.MULTILINE)
_FUNCTION = re.compile(r"^\t\tFunction : (\S+)$", re.MULTILINE)


def sass(cuobjdump: Path, binary: Path, launcher: Path) -> str:
    """Return the SASS of the kernel that a launcher launches, or of all kernels in the file if that one is unknown.

    Parameters
    ----------
    cuobjdump : Path
        The CUDA tool.
    binary : Path
        The file that contains the machine code: the launcher itself, or a cubin.
    launcher : Path
        The launcher, in which a symbol names the kernel.

    Raises
    ------
    ToolchainError
        If the tool fails, for example because it is older than the compiler.
    """
    path = {"PATH": str(cuobjdump.parent)}  # where cuobjdump finds nvdisasm
    done = subprocess.run([cuobjdump, "-sass", binary], capture_output=True, text=True, env=path)
    if done.returncode != 0:
        raise ToolchainError(f"{cuobjdump} failed: {(done.stderr or done.stdout).strip()}")
    archs = ", ".join(dict.fromkeys(_ARCH.findall(done.stdout)))
    _, *parts = _FUNCTION.split(done.stdout)
    kernels = {demangle(symbol): text for symbol, text in zip(parts[::2], parts[1::2], strict=True)}
    own = named_by(launcher.read_bytes(), kernels) or kernels
    return "\n\n".join(f"{kernel} for {archs}\n{_code(kernels[kernel])}" for kernel in own)


def _code(text: str) -> str:
    """Return a function's lines, without the encodings of the instructions and the line that ends the function."""
    lines = [re.sub(r"\s*/\* 0x[0-9a-f]{16} \*/$", "", line).rstrip() for line in text.splitlines()]
    return "\n".join(line.removeprefix("\t") for line in lines if line and not line.strip().startswith("...."))
