"""The messages between the processes of ``verify``: a task, and the events of its calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

BEGIN, END, REFUSED = "begin", "end", "refused"  # a call begins or ends; a kernel cannot be called


@dataclass(frozen=True)
class Task:
    """The calls that a process should make.

    Parameters
    ----------
    kernel : str
    device : {"cpu", "cuda"}
    types : sequence of str
        Call only variants of these dtypes; empty for all variants.
    given : mapping
        Extents of dims, values of numbers, and variants.
    seed : int
    skipped : int
        The number of calls to skip, because another process has made them.
    """

    kernel: str
    device: str
    types: Sequence[str]
    given: Mapping[str, Any]
    seed: int
    skipped: int = 0

    def as_json(self) -> str:
        return json.dumps(asdict(self))
