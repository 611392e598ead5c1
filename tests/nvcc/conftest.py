"""What the tests that compile for GPUs share."""

from __future__ import annotations

import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tkjit.config import Settings
from tkjit.errors import ToolchainError
from tkjit.loader import Loader, loader_for

KERNELS = Path(__file__).parent / "kernels"


@pytest.fixture(scope="session")
def loader() -> Loader:
    """The session's loader; without nvcc there is nothing to test here."""
    loader = loader_for(Settings.from_environment())
    try:
        loader.toolchain.nvcc  # noqa: B018
    except ToolchainError as error:
        pytest.fail(f"{error}")  # make test installs it
    return loader


@pytest.fixture(scope="session")
def foreign() -> dict[str, Any]:
    """The specs of the source that nobody wrote for tkjit."""
    return runpy.run_path(str(KERNELS / "foreign.py"))


@pytest.fixture(scope="session")
def sass() -> Any:
    """A function: a shared object's machine code as text."""
    from cuda.pathfinder import find_nvidia_binary_utility

    tool = find_nvidia_binary_utility("cuobjdump")
    assert tool is not None, "install nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm (make test does)"
    directory = str(Path(tool).parent)

    def disassemble(shared_object: Path) -> str:
        command = [tool, "-sass", str(shared_object)]
        return subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": directory}).stdout

    return disassemble
