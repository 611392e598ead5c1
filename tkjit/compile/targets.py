"""The targets of a variant: a GPU architecture, or the CPU of a machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from tkjit.errors import ToolchainError

NEWEST_MODEL = "90a"  # the newest architecture whose instructions the simulator has
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
    model : str
        The GPU architecture that the simulator is asked to be, ``"80"``; empty for its own choice.
    """

    arch: str
    cpu_level: str = ""
    model: str = ""

    @property
    def is_cpu(self) -> bool:
        return self.arch == "cpu"

    @property
    def name(self) -> str:
        """The architecture's directory in the cache: ``sm_90a``, ``cpu-x86-64-v3``."""
        return f"cpu-{self.cpu_level}" if self.is_cpu else f"sm_{self.arch}"


def cpu_target(has_v3: bool | None = None, model: str = "") -> Target:
    """The CPU of this machine, by the levels of the x86-64 ABI: a cache can then serve other machines of that level.

    Parameters
    ----------
    has_v3 : bool, optional
        Whether it has what ``x86-64-v3`` asks for, where that is known already.
    model : str
        The GPU architecture that the simulator is asked to be, as a user names it.

    Raises
    ------
    ToolchainError
        If the simulator does not model it.
    """
    model = gpu_target(model).arch if model else ""
    if model and generation(model) > generation(NEWEST_MODEL):
        raise ToolchainError(f"the simulator does not model sm_{model}; it has sm_{NEWEST_MODEL} and what came before")
    machine = os.uname().machine
    if machine != "x86_64":
        return Target("cpu", machine, model)
    return Target("cpu", "x86-64-v3" if (_has_v3() if has_v3 is None else has_v3) else "x86-64-v2", model)


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


def modelled_arch(archs: Iterable[str], asked: str = "") -> str:
    """The GPU architecture that code for the CPU models.

    Parameters
    ----------
    archs : iterable of str
        Those that a kernel has sources for; ``""`` is every one.
    asked : str
        The one that a user asks for.

    Returns
    -------
    str
        The one that is asked for, where the kernel has a source for it; else the newest that the simulator has, of the
        kernel's; where none is among them, the one that the kernel is written for.

    Examples
    --------
    >>> modelled_arch(["", "cpu"]), modelled_arch(["80", "90a", "100a"]), modelled_arch(["100a"])
    ('90a', '90a', '100a')
    >>> modelled_arch(["", "90a"], "80"), modelled_arch(["90a"], "80"), modelled_arch(["80", "90a"], "86")
    ('80', '90a', '86')
    """
    archs = list(archs)
    own = sorted((arch for arch in archs if arch not in ("", "cpu")), key=generation)
    serves = any(arch == asked or (arch.isdigit() and generation(arch) <= generation(asked)) for arch in own if asked)
    if asked and ("" in archs or serves or not own):
        return asked
    modelled = [arch for arch in own if generation(arch) <= generation(NEWEST_MODEL)]
    if "" in archs or not own:
        return NEWEST_MODEL
    return modelled[-1] if modelled else own[0]


def generation(arch: str) -> int:
    """The number of an architecture: 90 of ``90a``."""
    return int(arch.rstrip("af"))
