"""The module that owns all bound objects: one in a process, whatever the settings of later libraries are."""

from __future__ import annotations

from types import ModuleType

from tkjit.bindings.plans import BindingsPlan
from tkjit.config import Settings
from tkjit.errors import CppError
from tkjit.loader import loader_for
from tkjit.system.fork_safe import ForkSafeLock

_lock = ForkSafeLock()
_loaded: ModuleType | None = None


def runtime() -> ModuleType:
    """The module, loaded at the first call."""
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                loader = loader_for(Settings.from_environment())
                module: ModuleType = loader.open(BindingsPlan(loader.env)).loaded
                module.set_error(CppError)
                _loaded = module
    return _loaded
