"""Bound headers for tests."""

from __future__ import annotations

from pathlib import Path

import pytest

import tkjit

HEADERS = Path(__file__).parents[1] / "support" / "bound"


@pytest.fixture(scope="session")
def garden() -> tkjit.Library:
    return tkjit.bind("garden.hpp", namespaces="garden", include_dirs=[HEADERS])
