"""The test files: folders, lengths, names and markers."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tkjit
from tkjit.config import Settings
from tkjit.loader import loader_for

TESTS = Path(__file__).parents[1]
PACKAGE = Path(tkjit.__file__).parent
FILES = sorted(TESTS.rglob("*.py"))
# folders that test no package: the project as a whole, the bundled kernels, and helpers
OTHERS = {"project", "kernel_sources", "support"}
MAX_LINES = 500


def marks(path: Path) -> set[str]:
    """The markers of a whole module."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            return {child.attr for child in ast.walk(node.value) if isinstance(child, ast.Attribute)}
    return set()


def test_a_folder_is_named_as_a_room():
    packages = {path.stem for path in PACKAGE.iterdir()}
    folders = {path.name for path in TESTS.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders - OTHERS <= packages
    assert {path.stem.removeprefix("test_") for path in TESTS.glob("test_*.py")} <= packages


def test_files_are_short():
    lines = {str(path.relative_to(TESTS)): len(path.read_text().splitlines()) for path in FILES}
    assert {name: count for name, count in lines.items() if count > MAX_LINES} == {}


@pytest.mark.parametrize("machine", ["nvcc", "gpu"])
def test_a_name_says_which_machine_a_file_needs(machine):
    named = {path for path in FILES if path.name.startswith(f"test_{machine}_")}
    assert named == {path for path in FILES if path.name.startswith("test_") and machine in marks(path)}


def test_without_a_marker_nothing_is_compiled(cache):
    loader = loader_for(Settings.from_environment())
    with pytest.raises(pytest.fail.Exception, match="would be compiled; mark the module `compiles`"):
        loader.simulator(loader.target("cpu"))
