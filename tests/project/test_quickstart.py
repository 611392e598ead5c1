"""The notebook runs from top to bottom, shows its plots, and its build line appears and ends."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.compiles
NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "quickstart.ipynb"


@pytest.fixture(scope="module")
def executed():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    # an error in a cell raises CellExecutionError here
    return NotebookClient(notebook, timeout=300, kernel_name="python3").execute()


def _outputs(notebook):
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def test_it_shows_two_plots(executed):
    pictures = [output for output in _outputs(executed) if "image/png" in output.get("data", {})]
    assert len(pictures) == 2


def test_a_build_is_one_line_that_says_what_and_how_long(executed):
    texts = [str(output.get("data", {}).get("text/plain", "")) for output in _outputs(executed)]
    builds = [text for text in texts if text.startswith("tkjit: ")]
    assert any("compiled smooth (T=float32) for cpu-" in text for text in builds)
    assert not [text for text in builds if "..." in text], "each line ends with what came of it"
    assert "" not in [output.get("data", {}).get("text/plain") for output in _outputs(executed)], "and no empty ones"


def test_nothing_is_written_to_standard_error(executed):
    written = [output.text for output in _outputs(executed) if output.get("name") == "stderr"]
    assert not written


def test_it_is_kept_without_outputs():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not [cell for cell in notebook.cells if cell.cell_type == "code" and (cell.outputs or cell.execution_count)]
