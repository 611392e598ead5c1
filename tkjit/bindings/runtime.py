"""The module that owns all bound objects.

A process loads it only once, even if tkjit's settings change before a later ``bind``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from tkjit.bindings.cpp_types import NUMBERS
from tkjit.cache import TEXT, Product, Recipe
from tkjit.compile.flags import INCLUDE, RUNTIME
from tkjit.compile.targets import cpu_target
from tkjit.config import Settings
from tkjit.errors import CppError
from tkjit.loader import environment, loader_for
from tkjit.loader.environment import Environment
from tkjit.loader.modules import ModulePlan
from tkjit.loader.plan import Plan
from tkjit.system.fork_safe import ForkSafeLock, cached_property

_FLAGS = ("-std=c++17", "-O1", "-g0", "-fPIC", "-shared", "-fvisibility=hidden")
_BINDINGS = "bindings"
_lock = ForkSafeLock()
_loaded: ModuleType | None = None


def runtime() -> ModuleType:
    """Return the module that owns all bound objects. The first call loads it."""
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                loader = loader_for(Settings.from_environment())
                module: ModuleType = loader.open(BindingsPlan(loader.env)).loaded
                module.set_error(CppError)
                module.set_number_types(NUMBERS)
                _loaded = module
    return _loaded


class BindingsPlan(Plan):
    """The module that owns the objects and makes the calls. It does not need torch."""

    what = "the module of bindings (once per environment)"
    warmup = "python -m tkjit warmup"

    def __init__(self, env: Environment) -> None:
        self._env = env.without_torch

    @cached_property
    def warm_key(self) -> str:
        return self._env.warm_key(_BINDINGS, ())

    def inputs(self) -> Iterable[str]:
        return [__file__, environment.__file__, *self._env.toolchain.searched_paths(cpu_target())]

    def render(self) -> Recipe:
        parts = {TEXT: f"#include <{_BINDINGS}.cpp>\n", "flags": "\n".join(_FLAGS)}
        return self._env.recipe(_BINDINGS, _BINDINGS, parts)

    def make(self, staging: Path) -> Product:
        from tkjit.compile import compiler

        python = self._env.toolchain.check_python_headers()
        directories = (RUNTIME, INCLUDE)
        failures = self._env.failure_directory(self.recipe)
        search = (*directories, *self._env.header_path)
        unit = compiler.Unit(self.what, f"{_BINDINGS}.cpp", self.recipe.text, failures, search=search)

        def commands(source: Path, output: Path, depfile: Path) -> list[list[str]]:
            paths = [f"-I{directory}" for directory in directories]
            files = [f"-isystem{python}", "-MD", "-MF", str(depfile), str(source), "-o", str(output)]
            toolchain = self._env.toolchain
            return [[str(toolchain.cxx.path), *_FLAGS, *toolchain.quick_linking, *paths, *files]]

        return compiler.compile_binary(unit, staging, f"{_BINDINGS}.so", commands)

    def load(self, module: str, path: Path) -> ModuleType:
        return ModulePlan.import_module(_BINDINGS, path)
