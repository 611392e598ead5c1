"""Plans that compile a kernel's source to PTX, to show it."""

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
    from tkjit.compile.nvrtc import Nvrtc

_PTX = "kernel.ptx"


class PtxPlan(LauncherPlan):
    """Compiles a variant's source to PTX, with the compiler and the flags of its launcher."""

    @property
    def what(self) -> str:
        return f"{super().what} as PTX"

    @property
    def warmup(self) -> str:
        return f"python -m tkjit show {self.spec.name} --ptx --arch {self.target.arch}"

    def inputs(self) -> list[str]:
        return [*super().inputs(), __file__]

    _suffix = "-ptx"
    _more_parts = MappingProxyType({"output": "ptx"})

    @cached_property
    def _flags(self) -> Flags:
        launcher = self.launcher_flags
        return Flags(tuple("--ptx" if flag == "-shared" else flag for flag in launcher.compile), launcher.paths)

    def _make_whole(self, staging: Path) -> Product:
        from tkjit.compile import compiler

        def commands(source: Path, output: Path, depfile: Path) -> list[Step]:
            return [self._env.toolchain.command(self.target, self._flags, source, output, depfile)]

        return self._with_sources(compiler.compile_binary(self._unit(), staging, _PTX, commands))

    def _compile_with_nvrtc(self, staging: Path, nvrtc: Nvrtc) -> Product:
        code = self._device_code(nvrtc)
        return self._with_nvrtc(code, staging, _PTX, code.ptx_steps)

    def load(self, module: str, path: Path) -> Any:
        return path.read_text()
