"""``Spec``: a description of one overload, checked for contradictions."""

from __future__ import annotations

from dataclasses import dataclass

from tkjit.spec.checks import check
from tkjit.spec.description import Description


@dataclass(frozen=True)
class Spec(Description):
    __doc__ = Description.__doc__

    def __post_init__(self) -> None:
        check(self)
