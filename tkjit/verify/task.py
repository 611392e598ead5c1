"""What the processes of ``verify`` tell each other: a task, and the events of its calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

BEGIN, END, REFUSED = "begin", "end", "refused"  # of a call, and of a kernel that cannot be called


@dataclass(frozen=True)
class Task:
    """What a process is asked to do.

    Parameters
    ----------
    kernel : str
    device : {"cpu", "cuda"}
    types : sequence of str
        Only variants of these dtypes; empty for all.
    given : mapping
        Extents of dims, values of numbers, variants.
    seed : int
    skipped : int
        How many of the first calls are not made again.
    """

    kernel: str
    device: str
    types: Sequence[str]
    given: Mapping[str, Any]
    seed: int
    skipped: int = 0

    def as_json(self) -> str:
        return json.dumps(asdict(self))
