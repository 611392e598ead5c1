"""Scripts that stand in for compilers: they print a version and log their calls."""

from __future__ import annotations

import re
from pathlib import Path

GXX_12 = "g++ (Debian 12.2.0-14+deb12u1) 12.2.0"
NVCC_13 = (
    "nvcc: NVIDIA (R) Cuda compiler driver\\nCopyright (c) 2005-2025 NVIDIA Corporation\\n"
    "Built on Wed_Aug_20_01:58:59_PM_PDT_2025\\nCuda compilation tools, release 13.0, V13.0.88\\n"
    "Build cuda_13.0.r13.0/compiler.36424714_0"
)


def write_tool(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\necho "$0 $*" >> {path.parent}/calls\n{body}\n')
    path.chmod(0o755)
    return path


def printed_version(version: str) -> str:
    """Return the printed part of a script's version, to which tkjit adds a hash of the script's text."""
    printed, mark, digest = version.partition(" (script:")
    assert mark and re.fullmatch(r"[0-9a-f]{16}\)", digest)
    return printed


def write_gxx(path: Path, version: str = GXX_12) -> Path:
    return write_tool(path, f"printf '{version}\\nCopyright (C) 2022\\n'")


def write_nvcc(path: Path, root: str = "", codes: str = "sm_80 sm_90 sm_100 sm_103") -> Path:
    listed = codes.replace(" ", "\\n")
    return write_tool(
        path,
        f"case $1 in --version) printf '{NVCC_13}\\n';; --list-gpu-code) printf '{listed}\\n';;\n"
        f"  --dryrun) echo '#$ TOP={root or path.parent / '..'}' >&2;; esac",
    )


def calls(directory: Path) -> list[str]:
    lines = (directory / "calls").read_text() if (directory / "calls").exists() else ""
    # leave out the trial compilation that comes with each check of a version
    return [line for line in lines.splitlines() if "/trial.so" not in line]
