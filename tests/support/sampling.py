"""Selects the parametrized cases for ``make test``. The others are marked slow, for ``make test-all``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def sample(cases: Iterable[Any], *kept: str, name: Callable[[Any], str] = str) -> list[Any]:
    """Parameters of all cases, of which only those with a kept name are not slow.

    Parameters
    ----------
    name : callable
        A case's name, which is its test's id too.
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
