"""The applications of the WAYOUT paper (Zhu et al., IPDPS 2022), written anew: each in Python and in C++.

A module has ``HEADERS``, its options for ``tkjit.bind``, and ``run(library, n)``, which returns named results. The C++
program beside it prints the same names and numbers.
"""

from __future__ import annotations

import numpy as np


def numbers(n: int, below: int, seed: int = 1) -> np.ndarray:
    """n numbers from 0 to below - 1, the same as application.hpp's."""
    mixed = (np.arange(n, dtype=np.uint64) + np.uint64(seed)) * np.uint64(2654435761)
    return ((mixed >> np.uint64(7)) % np.uint64(1000003) % np.uint64(below)).astype(np.int32)
