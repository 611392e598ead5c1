"""``%load_ext tkjit`` starts the compiler for a GPU in the background."""

from __future__ import annotations

import threading

import pytest
from support.waiting import wait_until

import tkjit.notebook
from tkjit.compile import nvrtc_server

pytestmark = pytest.mark.nvcc


@pytest.fixture
def libraries(monkeypatch) -> list[str]:
    """Collects the libraries for which a server is started."""
    started: list[str] = []
    monkeypatch.setattr(nvrtc_server, "start", started.append)
    return started


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """Returns the device file that shows that there is a driver."""
    device = tmp_path / "nvidiactl"
    monkeypatch.setattr(tkjit.notebook, "_DRIVERS", (device,))
    return device


def reload(shell) -> None:
    shell.run_cell("%unload_ext tkjit")
    shell.run_cell("%load_ext tkjit")


def test_with_a_driver_nvrtc_is_loaded_in_the_background(shell, driver, libraries, loader):
    driver.touch()
    reload(shell)
    wait_until(lambda: libraries == [str(loader.toolchain.nvrtc.path)])


@pytest.mark.parametrize(("exists", "variable"), [(False, ""), (True, "TKJIT_COMPILER_SERVER"), (True, "TKJIT_JIT")])
def test_nothing_is_started_otherwise(shell, driver, libraries, monkeypatch, exists, variable):
    if exists:
        driver.touch()
        monkeypatch.setenv(variable, "0")
    reload(shell)
    for thread in threading.enumerate():
        if thread.name == "tkjit starts NVRTC":
            thread.join()
    assert libraries == []


def test_a_server_is_started_once(loader, monkeypatch):
    monkeypatch.setattr(nvrtc_server, "_idle", [])
    library = str(loader.toolchain.nvrtc.path)
    nvrtc_server.start(library)
    nvrtc_server.start(library)
    (server,) = nvrtc_server._idle
    assert server.library == library
    nvrtc_server._end_idle()
