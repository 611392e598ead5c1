"""The IPython extension: ``%load_ext tkjit``."""

from __future__ import annotations

import weakref
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from tkjit.config import Settings
from tkjit.errors import TkjitError
from tkjit.notebook.cell import CellMagic
from tkjit.notebook.completion import complete
from tkjit.notebook.watch import Watch

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["load_ipython_extension", "unload_ipython_extension"]

# exist while NVIDIA's driver is loaded; the second is WSL's
_DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))


class _Extension:
    """The extension in one shell: the ``%%tkjit`` cell, completion, and a note when a source has changed."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._watch = Watch(shell)
        self._complete = complete(shell)

    def load(self) -> None:
        self._shell.magics_manager.register_function(CellMagic(self._shell).run, "cell", "tkjit")
        self._shell.Completer.custom_matchers.append(self._complete)
        self._shell.events.register("pre_run_cell", self._watch.look)
        if any(driver.exists() for driver in _DRIVERS):
            Thread(target=_start_compiler, name="tkjit starts NVRTC", daemon=True).start()

    def unload(self) -> None:
        self._shell.events.unregister("pre_run_cell", self._watch.look)
        self._shell.Completer.custom_matchers.remove(self._complete)
        self._shell.magics_manager.magics["cell"].pop("tkjit", None)


def _start_compiler() -> None:
    """Start the server that keeps NVRTC loaded, so that the first kernel does not wait for it."""
    from tkjit.compile import nvrtc_server
    from tkjit.loader import loader_for

    settings = Settings.from_environment()
    with suppress(TkjitError, OSError):
        if settings.jit and settings.compiler_server:
            nvrtc_server.start(str(loader_for(settings).toolchain.nvrtc.path))


_loaded: weakref.WeakKeyDictionary[InteractiveShell, _Extension] = weakref.WeakKeyDictionary()


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Handle ``%load_ext tkjit``; loading it a second time has no effect."""
    if shell not in _loaded:
        _loaded[shell] = _Extension(shell)
        _loaded[shell].load()


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Handle ``%unload_ext tkjit``."""
    if (extension := _loaded.pop(shell, None)) is not None:
        extension.unload()
