"""A fixture that skips tests of the importer if its tools are missing."""

from __future__ import annotations

import pytest

from tkjit.config import Settings
from tkjit.errors import ToolchainError
from tkjit.loader import loader_for

SETTINGS = Settings.from_environment()  # read before the tests get their own cache


@pytest.fixture(scope="module")
def clang() -> None:
    pytest.importorskip("clang.cindex", reason='libclang is missing: pip install "tkjit[import]"')
    try:
        loader_for(SETTINGS).toolchain.nvcc  # noqa: B018
    except ToolchainError as error:
        pytest.skip(f"the headers of CUDA are needed: {error}")
