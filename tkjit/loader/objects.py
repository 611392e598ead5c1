"""Plans that build launchers as object files, several of which are linked into one library."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tkjit.cache import Product
from tkjit.compile.flags import Flags
from tkjit.loader.launchers import LauncherPlan
from tkjit.system.fork_safe import cached_property

if TYPE_CHECKING:
    from tkjit.compile.compiler import Step

# The global symbols of an object: the launch function and, for the CPU, the pointer to the pool of stacks.
ENTRY, POOL = "tkjit_launch", "tkjit_sim_pool"
# Makes each object keep its own template instances, because two sources may compile the same name differently.
_JOIN = ("-r", "-nostdlib", "-fuse-ld=bfd", "-Wl,--force-group-allocation")


class ObjectPlan(LauncherPlan):
    """Builds a variant's launcher for a target as an object file.

    All but two of its symbols are local, because another variant's source may define functions with the same names. An
    object for the CPU contains the simulator, just as a launcher for the CPU does.
    """

    @property
    def what(self) -> str:
        return f"{super().what} as an object"

    @property
    def warmup(self) -> str:
        return f"python -m tkjit export {self.spec.name}"

    def inputs(self) -> list[str]:
        return [*super().inputs(), __file__]

    _suffix = "-object"
    _more_parts = MappingProxyType({"object": " ".join((*_JOIN, ENTRY, POOL))})

    def is_adapted_while_built(self) -> bool:
        """Whether the source's headers have to be adapted for the CPU. Only tkjit's own build can adapt them."""
        return self._is_translated()

    @property
    def link_flags(self) -> tuple[str, ...]:
        """The flags with which the library has to be linked."""
        return (*self.launcher_flags.link, *self.launcher_flags.packages)

    _can_use_nvrtc = False  # the object is linked into a library, which launches through the CUDA runtime

    @cached_property
    def _flags(self) -> Flags:
        launcher = self.launcher_flags
        compiled = [_COMPILE.get(flag, flag) for flag in launcher.compile]
        unique = "-fno-gnu-unique" if self.target.is_cpu else "-Xcompiler=-fno-gnu-unique"
        # clang++ does not have this flag, and creates no unique symbols
        more = [] if "clang" in self._env.toolchain.cxx.version else [unique]
        return Flags((*compiled, *more, "-DTKJIT_LINKED"), launcher.paths)

    def make(self, staging: Path) -> Product:
        from tkjit.compile import compiler

        env, toolchain = self._env, self._env.toolchain
        self._check()
        if not self.target.is_cpu:
            toolchain.check_arch(self.target)
        simulator = [str(env.simulator(self.target, ""))] if self.target.is_cpu else []
        # the simulator's inline variables are unique symbols, which can only be made local after they are weakened
        weaken = [f"--weaken-symbol={name}" for path in simulator for name in toolchain.unique_symbols(path)]

        def commands(source: Path, output: Path, depfile: Path) -> list[Step]:
            compiled, joined = str(staging / "compiled.o"), str(staging / "joined.o")
            line = toolchain.command(self.target, self._flags, source, Path(compiled), depfile)
            if self.target.is_cpu:
                line.insert(1, f"-fdebug-prefix-map={staging}=.")
            keep = [f"--keep-global-symbol={name}" for name in (ENTRY, POOL)]
            objcopy = toolchain.binutil("objcopy")
            return [
                *self._steps(line, source, [], self._is_translated()),
                [str(toolchain.cxx.path), *_JOIN, "-o", joined, compiled, *simulator],
                [objcopy, *weaken, joined],
                [objcopy, *keep, joined, str(output)],
            ]

        product = compiler.compile_binary(self._unit(), staging, "launcher.o", commands)
        for name in ("compiled.o", "joined.o"):
            (staging / name).unlink()
        return self._with_sources(product)

    def load(self, module: str, path: Path) -> Any:
        return path


_COMPILE = {"-shared": "-c"}
