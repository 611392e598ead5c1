"""The plan of the simulator's object, which is linked with every launcher for the CPU."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tkjit.cache import PATHS, TEXT, Product, Recipe
from tkjit.compile import flags
from tkjit.compile.targets import Target
from tkjit.loader import environment
from tkjit.loader.environment import Environment
from tkjit.loader.plan import Plan
from tkjit.system.fork_safe import cached_property

SIMULATOR = "simulator"
_CHECKER = ("race.h", "copies.h")  # headers of the checker that the object includes in every mode
# The headers that the object includes, and that some launchers do not.
_MORE_HEADERS = (
    "cuda.h",
    *(
        f"detail/{name}.h"
        for name in (
            "block_scaling",
            "driver_types",
            "float16_rounding",
            "fp8_rounding",
            "launch_control",
            "numerics",
            "pending_registers",
            "statement",
            "tcgen05",
            "tensor_map",
            "tf32_rounding",
            "wgmma",
        )
    ),
)
_RUNTIME_HEADERS = ("sim_pool.h", "sim_verdict.h")  # the interface between the object and the runtime


class SimulatorObjectPlan(Plan):
    """Builds the part of the simulator that is common to all kernels, once for all of them.

    Parameters
    ----------
    mode : str
        ``""``, or the mode of the checker: ``"memory"``, ``"race"`` or ``"overflow"``.
    """

    def __init__(self, env: Environment, target: Target, mode: str = "") -> None:
        self._env = env
        self._target = target
        self._name = f"{target.name}-{mode}" if mode else target.name
        self._flags = _flags(target, mode, env.for_debugger)

    @cached_property
    def warm_key(self) -> str:
        return self._env.warm_key(f"{SIMULATOR}-{self._name}", self._flags)

    @property
    def what(self) -> str:
        return "the simulator (once per environment)"

    @property
    def warmup(self) -> str:
        return "python -m tkjit warmup --device cpu"

    def inputs(self) -> Iterable[str]:
        files = [flags.__file__, environment.__file__, __file__]
        return [*files, *self._env.toolchain.searched_paths(self._target)]

    def render(self) -> Recipe:
        parts = {
            TEXT: "#include <simulator.cpp>\n",
            "flags": "\n".join(self._flags.compile),
            PATHS: "\n".join(map(str, self._flags.include_dirs)),
        }
        return self._env.recipe(SIMULATOR, self._name, parts, self._target)

    def make(self, staging: Path) -> Product:
        from tkjit.compile import compiler

        env = self._env
        unit = compiler.Unit(
            self.what,
            "simulator.cpp",
            self.recipe.text,
            env.failure_directory(self.recipe),
            search=(*self._flags.search, *env.header_path),
        )
        command = env.toolchain.command
        return compiler.compile_binary(
            unit, staging, "simulator.o", lambda *files: [command(self._target, self._flags, *files)]
        )

    def load(self, module: str, path: Path) -> Path:
        return path


def _flags(target: Target, mode: str, for_debugger: bool) -> flags.Flags:
    return flags.simulator_flags(target, flags.checker_macros(mode), for_debugger=for_debugger)


def simulator_flags_of(target: Target, mode: str = "", *, for_debugger: bool = False) -> str:
    """Return the flags of the simulator's object as text, for a launcher's key."""
    return "\n".join(_flags(target, mode, for_debugger).compile)


def with_simulator_sources(product: Product, mode: str = "") -> Product:
    """Add the sources of the simulator's object to the dependencies of a launcher that is linked with the object."""
    checks = flags.SIMULATOR.glob("check/*.h") if mode else [flags.SIMULATOR / "check" / name for name in _CHECKER]
    others = [flags.INCLUDE / "tkjit" / name for name in _RUNTIME_HEADERS]
    others += [flags.SIMULATOR / name for name in _MORE_HEADERS]
    sources = [flags.SIMULATOR / "simulator.cpp", *flags.SIMULATOR.glob("runtime/*.h"), *checks, *others]
    return replace(product, dependencies=tuple(sorted({*product.dependencies, *sources})))
