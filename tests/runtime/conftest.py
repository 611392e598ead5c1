"""Fixtures for the tests of calls."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tkjit.config import Settings
from tkjit.loader import loader_for


@pytest.fixture(params=["TensorImpl", "exchange API", "__dlpack__"])
def reading(request: pytest.FixtureRequest, session_cache) -> Iterator[str]:
    """Runs the test once for each way in which the runtime reads tensors."""
    runtime = loader_for(Settings.from_environment()).runtime
    runtime.read_tensors_through(request.param)
    try:
        assert runtime.reads_tensors_through() == request.param
        yield request.param
    finally:
        runtime.read_tensors_through("TensorImpl")
