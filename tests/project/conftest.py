"""The environment of somebody who follows the documentation."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.pages import environment


@pytest.fixture(scope="module")
def variables(runtime, operators, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment variables of a reader whose cache has only what all kernels share."""
    cache = Path(shutil.copytree(runtime, tmp_path_factory.mktemp("reader") / "cache"))
    operators(cache)
    return environment(cache)
