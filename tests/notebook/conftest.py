"""An IPython shell in this process with the extension loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output


@pytest.fixture
def shell(tmp_path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(colors="nocolor", history_load_length=0)
    shell.history_manager.enabled = False
    shell.run_cell("%load_ext tkjit")
    yield shell
    shell.run_cell("%unload_ext tkjit")
    shell.history_manager.end_session()
    InteractiveShell.clear_instance()


@pytest.fixture
def run(shell: InteractiveShell) -> Callable[[str], Any]:
    """Runs a cell, and returns its output and its error."""

    def run(cell: str) -> tuple[str, BaseException | None]:
        with capture_output() as captured:
            result = shell.run_cell(cell, store_history=True)
        return captured.stdout, result.error_in_exec or result.error_before_exec

    return run
