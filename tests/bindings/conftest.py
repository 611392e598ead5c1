"""Fixtures for tests of bound headers."""

from __future__ import annotations

from pathlib import Path

import pytest

import tkjit
from tkjit.bindings import call_plans

HEADERS = Path(__file__).parents[1] / "support" / "bound"


@pytest.fixture(scope="session")
def garden() -> tkjit.Library:
    return tkjit.bind("garden.hpp", namespaces="garden", include_dirs=[HEADERS])


@pytest.fixture
def units(monkeypatch) -> list[int]:
    """The number of calls in each translation unit, in the order of compilation."""
    counts: list[int] = []

    def compile_counted(self, staging, calls, of=call_plans.UnitPlan._compile):
        counts.append(len(calls))
        return of(self, staging, calls)

    monkeypatch.setattr(call_plans.UnitPlan, "_compile", compile_counted)
    return counts
