"""Selects the parametrized cases for ``make test``, and marks the others as slow, for ``make test-all``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def sample(cases: Iterable[Any], *kept: str, name: Callable[[Any], str] = str) -> list[Any]:
    """Return test parameters for all cases, and mark all but the kept ones as slow.

    Parameters
    ----------
    name : callable
        Returns a case's name, which is also the id of its test.
    """
    cases = list(cases)
    missing = set(kept) - {name(case) for case in cases}
    assert not missing, f"no case is named {missing}"
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            id=name(case),
            marks=() if name(case) in kept else pytest.mark.slow,
        )
        for case in cases
    ]
