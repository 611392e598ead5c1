"""``doctor``: prints the tools found on this machine, and the missing ones with their install commands."""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tkjit.cache.listing import list_entries
from tkjit.cli.output import add_json, print_json
from tkjit.compile.nvrtc import EXTRA
from tkjit.compile.toolchain import Toolchain, address_sanitizer, install_address_sanitizer
from tkjit.config import Settings
from tkjit.errors import CacheError, ToolchainError
from tkjit.loader import loader_for
from tkjit.system import trust
from tkjit.system.install import pip_install, system_install

FOUND, MISSING, ABSENT, SKIPPED = "ok", "MISSING", "none", "skipped"
OLDEST_TORCH = (2, 11)


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Parameters
    ----------
    state : str
        ``"ok"``; ``"MISSING"`` if the user has to install or fix it; ``"none"`` if it is optional and absent;
        ``"skipped"`` for a compiler that cannot be used.
    """

    what: str
    state: str
    text: str


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("doctor", help="list the tools found and the tools missing")
    add_json(parser)
    parser.set_defaults(run=_doctor)


def _doctor(arguments: argparse.Namespace) -> int:
    settings = Settings.from_environment()
    findings = examine(settings, loader_for(settings).toolchain, driver_version())
    if arguments.json:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            print(f"{finding.state:>7}  {finding.what:<12}  {finding.text}")
    return 1 if any(finding.state == MISSING for finding in findings) else 0


def examine(settings: Settings, tools: Toolchain, driver: tuple[int, int] | None) -> list[Finding]:
    """Check everything that a build needs, and return a line about each item.

    Parameters
    ----------
    driver : (int, int) or None
        The CUDA version that the driver supports, or None if there is no driver.
    """
    gpus = _gpus()
    nvrtc = _nvrtc(tools, driver)
    return [
        Finding("Python", FOUND, f"{sys.version.split()[0]}, {sys.executable}"),
        _tool("Python.h", lambda: str(tools.check_python_headers())),
        _torch(),
        _ninja(),
        *_cxx(tools),
        _nvcc(tools, driver, settings.cuda_home, needed=bool(gpus) and nvrtc.state == ABSENT),
        nvrtc,
        Finding("GPU", FOUND if gpus else ABSENT, ", ".join(gpus) or _why_no_gpu(driver)),
        Finding(
            "driver", FOUND if driver else ABSENT, f"runs CUDA {driver[0]}.{driver[1]}" if driver else "no libcuda.so.1"
        ),
        *_for_checking(tools),
        _cache(settings),
        *_remote(settings),
    ]


def _tool(what: str, find: Callable[[], str]) -> Finding:
    try:
        return Finding(what, FOUND, find())
    except ToolchainError as error:
        return Finding(what, MISSING, str(error))


def _cxx(tools: Toolchain) -> list[Finding]:
    """Report the C++ compilers that were rejected, and then the one that is used."""
    skipped = [Finding("C++", SKIPPED, str(one)) for one in tools.rejected_cxx]
    try:
        found = tools.cxx
    except ToolchainError as error:
        # take the first line only, because the other lines repeat the rejected compilers
        return [*skipped, Finding("C++", MISSING, str(error).partition("\n")[0])]
    return [*skipped, Finding("C++", FOUND, f"{found.version}, {found.path} ({found.origin})")]


def _torch() -> Finding:
    oldest = ".".join(map(str, OLDEST_TORCH))
    try:
        import torch
    except ImportError as error:
        return Finding("torch", MISSING, f"{error}; install it: {pip_install(f'torch>={oldest}')}")
    text = f"{torch.__version__}, built for {f'CUDA {torch.version.cuda}' if torch.version.cuda else 'the CPU'}"
    version = tuple(int(number) for number in re.findall(r"\d+", torch.__version__)[:2])
    if version < OLDEST_TORCH:
        return Finding("torch", MISSING, f"{text}; {oldest} or newer is needed: {pip_install(f'torch>={oldest}')}")
    return Finding("torch", FOUND, text)


def _ninja() -> Finding:
    try:
        import ninja
    except ImportError:
        return Finding("ninja", MISSING, f"install it: {pip_install('ninja')}")
    return Finding("ninja", FOUND, f"{ninja.__version__}, {ninja.BIN_DIR}")


def _nvcc(tools: Toolchain, driver: tuple[int, int] | None, home: Path | None, *, needed: bool) -> Finding:
    try:
        tool = tools.nvcc
    except ToolchainError as error:
        return Finding("nvcc", MISSING if needed else ABSENT, str(error))
    release = re.search(r"release (\d+)\.(\d+)", tool.version)
    text = f"{tool.version}, {tool.path} ({tool.origin})"
    if home is not None and tool.origin != "CUDA_HOME":
        text += f"; CUDA_HOME is {home}, which has no bin/nvcc"
    # a driver runs cubins from a newer minor version of CUDA, but not from a newer major version
    if driver and release and int(release[1]) > driver[0]:
        return Finding(
            "nvcc",
            MISSING,
            f"{text}: newer than the driver, which runs CUDA {driver[0]}.{driver[1]}; update the driver, "
            f"or set CUDA_HOME to a toolkit of version {driver[0]}",
        )
    return Finding("nvcc", FOUND, text)


def _nvrtc(tools: Toolchain, driver: tuple[int, int] | None) -> Finding:
    try:
        found = tools.nvrtc
    except ToolchainError as error:
        return Finding("NVRTC", ABSENT, str(error))
    text = f"{found.version}, {found.path}"
    lacking = [
        name for name in ("crt/mma.h", "nv/target") if not any((one / name).is_file() for one in found.include_dirs)
    ]
    if lacking:
        text += f"; without {' and '.join(lacking)}, which some kernels include: {pip_install(EXTRA)}"
    if driver is not None and found.cuda // 1000 > driver[0]:
        newer = f"newer than the driver, which runs CUDA {driver[0]}.{driver[1]}"
        return Finding(
            "NVRTC",
            MISSING,
            f"{text}: {newer}; update the driver, or set CUDA_HOME to a toolkit of version {driver[0]}",
        )
    return Finding("NVRTC", FOUND, text)


def _remote(settings: Settings) -> list[Finding]:
    """Report the remote cache, if one is set."""
    try:
        remote = loader_for(settings).cache.remote
        return [] if remote is None else [Finding("remote cache", FOUND, remote.examine())]
    except CacheError as error:
        return [Finding("remote cache", MISSING, str(error))]


def _for_checking(tools: Toolchain) -> list[Finding]:
    """Report the optional tools that ``check`` and ``debug`` need in addition to a compiler."""
    findings = []
    with suppress(ToolchainError):  # _cxx has already reported this error
        library = address_sanitizer(tools.cxx)
        text = str(library) if library else f"check --memory needs it; {install_address_sanitizer(tools.cxx.version)}"
        findings.append(Finding("sanitizer", FOUND if library else ABSENT, text))
    for what, program, package, use in (
        ("binutils", "addr2line", "binutils", "check needs it to print line numbers"),
        ("gdb", "gdb", "gdb", "debug needs it"),
    ):
        found = shutil.which(program)
        text = found or f"{use}; {system_install(package)}"
        findings.append(Finding(what, FOUND if found else ABSENT, text))
    return findings


def _gpus() -> list[str]:
    try:
        import torch
    except ImportError:
        return []
    count = torch.cuda.device_count()
    return [
        f"{torch.cuda.get_device_name(i)} (sm_{''.join(map(str, torch.cuda.get_device_capability(i)))})"
        for i in range(count)
    ]


def _why_no_gpu(driver: tuple[int, int] | None) -> str:
    import importlib.util

    if driver is not None and importlib.util.find_spec("torch") is not None:
        import torch

        if torch.version.cuda is None:
            return f"torch {torch.__version__} is a CPU build; install a build for CUDA {driver[0]}: pytorch.org"
    return "none that torch can use: kernels run on the CPU"


def driver_version() -> tuple[int, int] | None:
    """Return the CUDA version that the driver supports, or None if there is no driver."""
    try:
        libcuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int()
    if libcuda.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return None
    return version.value // 1000, version.value % 1000 // 10


def _cache(settings: Settings) -> Finding:
    root = settings.cache_root
    existing = next(path for path in (root, *root.parents) if path.exists())
    try:
        if not settings.cache_shared:
            trust.check(root)
        if root.is_dir():
            # write a file, because permissions do not show whether the disk is read-only or full
            with tempfile.TemporaryFile(dir=root) as scratch:
                scratch.write(b"\0" * 4096)
        elif not existing.is_dir() or not os.access(existing, os.W_OK):
            raise PermissionError(0, f"{existing} is not writable")
    except CacheError as error:
        return Finding("cache", MISSING, str(error))
    except OSError as error:
        return Finding("cache", MISSING, f"{root}: {error.strerror}; set TKJIT_CACHE to a writable directory")
    return Finding("cache", FOUND, f"{root}, {len(list_entries(root))} entries")
