"""Defines the targets of variants: GPU architectures and CPU levels."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from tkjit.errors import ToolchainError

DEFAULT_MODEL = "90a"  # the architecture that the simulator models unless a kernel is only written for others
NEWEST_MODEL = "103a"  # the newest architecture that it can model
_ARCH = re.compile(r"[0-9]{2,3}[af]?")


@dataclass(frozen=True)
class Target:
    """The target of a compilation: a GPU architecture, ``Target("90a")``, or a CPU at an instruction-set level.

    Parameters
    ----------
    arch : str
        The GPU architecture, ``"90a"``, or ``"cpu"`` for the simulator.
    cpu_level : str
        The instruction-set level of the machine that runs the code, such as ``"x86-64-v3"``.
    model : str
        The GPU architecture that the user asks the simulator to model, ``"80"``; empty for the default.
    """

    arch: str
    cpu_level: str = ""
    model: str = ""

    @property
    def is_cpu(self) -> bool:
        return self.arch == "cpu"

    @property
    def name(self) -> str:
        """The name of the target's directory in the cache: ``sm_90a``, ``cpu-x86-64-v3``."""
        return f"cpu-{self.cpu_level}" if self.is_cpu else f"sm_{self.arch}"


def cpu_target(has_v3: bool | None = None, model: str = "") -> Target:
    """Return this machine's CPU as a level of the x86-64 ABI, so that a cache can serve all machines of that level.

    Parameters
    ----------
    has_v3 : bool, optional
        Whether the CPU supports ``x86-64-v3``, if that is already known.
    model : str
        The GPU architecture that the user asks the simulator to model, in the user's spelling.

    Raises
    ------
    ToolchainError
        If the simulator does not model the architecture.
    """
    model = gpu_target(model).arch if model else ""
    if model and generation(model) > generation(NEWEST_MODEL):
        raise ToolchainError(f"the simulator does not model sm_{model}; it models sm_{NEWEST_MODEL} and older")
    machine = os.uname().machine
    if machine != "x86_64":
        return Target("cpu", machine, model)
    return Target("cpu", "x86-64-v3" if (_has_v3() if has_v3 is None else has_v3) else "x86-64-v2", model)


def _has_v3() -> bool:
    try:
        with open("/proc/cpuinfo") as file:  # noqa: PTH123
            first = file.read(1 << 14)  # the first CPU is enough, and listing hundreds of them takes long
    except OSError:
        return False
    flags = next((line for line in first.split("\n") if line.startswith("flags")), "")
    return {"avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"} <= set(flags.split())


def gpu_target(arch: str) -> Target:
    """Return the target for a GPU architecture in a user's spelling: ``90a`` or ``sm_90a``.

    Raises
    ------
    ToolchainError
        If the text is not an architecture.
    """
    short = arch.removeprefix("sm_")
    if not _ARCH.fullmatch(short):
        raise ToolchainError(f"{arch!r} is not a GPU architecture; expected for example 80, 90a or sm_100a")
    return Target(short)


def arch_of_capability(major: int, minor: int) -> str:
    """Return the architecture with all of a device's features.

    Since Hopper, the suffix ``a`` adds the features that only one generation has.
    """
    return f"{major}{minor}{'a' if major >= 9 else ''}"


def modelled_arch(archs: Iterable[str], asked: str = "") -> str:
    """Return the GPU architecture that code for the CPU models.

    Parameters
    ----------
    archs : iterable of str
        The architectures for which a kernel has sources; ``""`` means all.
    asked : str
        The architecture that the user asks for.

    Returns
    -------
    str
        The architecture that the user asks for, if the kernel has a source for it. Otherwise, the newest of the
        kernel's architectures up to the simulator's default, or the oldest if all of them are newer.

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
    older = [arch for arch in own if generation(arch) <= generation(DEFAULT_MODEL)]
    if "" in archs or not own:
        return DEFAULT_MODEL
    return older[-1] if older else own[0]


def generation(arch: str) -> int:
    """Return the number in an architecture: 90 for ``90a``."""
    return int(arch.rstrip("af"))
