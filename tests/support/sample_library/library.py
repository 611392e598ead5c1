"""The header library next to this file, as a ``tkjit.HeaderLibrary``."""

from __future__ import annotations

from pathlib import Path

import tkjit

ROOT = Path(__file__).parent
MITTENS = tkjit.HeaderLibrary(
    "mittens",
    proof="include/mittens.h",
    root=ROOT,
    flags=("-DMITTENS_FLAVOUR=7", "-include", "cstdint"),
    arch_defines=((80, "MITTENS_AMPERE"), (90, "MITTENS_HOPPER"), (100, "MITTENS_BLACKWELL")),
    uses_driver=True,
)
