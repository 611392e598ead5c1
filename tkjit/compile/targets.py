"""The targets of a variant: a GPU architecture, or the CPU of a machine."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from tkjit.errors import ToolchainError

_ARCH = re.compile(r"[0-9]{2,3}[af]?")


@dataclass(frozen=True)
class Target:
    """What a variant is compiled for: ``Target("90a")``, or the CPU at an instruction-set level.

    Parameters
    ----------
    arch : str
        ``"90a"`` for a GPU, ``"cpu"`` for the simulator.
    cpu_level : str
        ``"x86-64-v3"`` and so on, of the machine that runs it.
    """

    arch: str
    cpu_level: str = ""

    @property
    def is_cpu(self) -> bool:
        return self.arch == "cpu"

    @property
    def name(self) -> str:
        """The architecture's directory in the cache: ``sm_90a``, ``cpu-x86-64-v3``."""
        return f"cpu-{self.cpu_level}" if self.is_cpu else f"sm_{self.arch}"


def cpu_target(has_v3: bool | None = None) -> Target:
    """The CPU of this machine, by the levels of the x86-64 ABI: a cache can then serve other machines of that level.

    Parameters
    ----------
    has_v3 : bool, optional
        Whether it has what ``x86-64-v3`` asks for, where that is known already.
    """
    machine = os.uname().machine
    if machine != "x86_64":
        return Target("cpu", machine)
    return Target("cpu", "x86-64-v3" if (_has_v3() if has_v3 is None else has_v3) else "x86-64-v2")


def _has_v3() -> bool:
    try:
        with open("/proc/cpuinfo") as file:  # noqa: PTH123
            first = file.read(1 << 14)  # one CPU says it for all, and hundreds take long to list
    except OSError:
        return False
    flags = next((line for line in first.split("\n") if line.startswith("flags")), "")
    return {"avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"} <= set(flags.split())


def gpu_target(arch: str) -> Target:
    """A GPU architecture as a user names it: ``90a``, ``sm_90a``.

    Raises
    ------
    ToolchainError
        If it does not read as one.
    """
    short = arch.removeprefix("sm_")
    if not _ARCH.fullmatch(short):
        raise ToolchainError(f"{arch!r} is not a GPU architecture; expected the like of 80, 90a, sm_100a")
    return Target(short)


def arch_of_capability(major: int, minor: int) -> str:
    """The architecture with all that a device has: its own features (``a``) exist since Hopper."""
    return f"{major}{minor}{'a' if major >= 9 else ''}"
