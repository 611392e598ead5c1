"""Plans of launchers: one for each variant and target."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from tkjit.cache import PATHS, TEXT, Product, Recipe
from tkjit.errors import CompileError, TkjitError, ToolchainError
from tkjit.flags import Flags, launcher_flags
from tkjit.loader.circumstances import Circumstances, rendering_files
from tkjit.loader.plan import Plan
from tkjit.loader.words import describe, warmup_command
from tkjit.render import render_launcher
from tkjit.spec import Source, Spec, Variant
from tkjit.targets import Target


class LauncherPlan(Plan):
    """A variant's launcher for a target.

    Raises
    ------
    ToolchainError
        If the spec has no source for the target.
    """

    def __init__(self, around: Circumstances, spec: Spec, variant: Variant, target: Target) -> None:
        self._around = around
        self.spec, self.variant, self.target = spec, variant, target
        self._source = _source(spec, target)

    @cached_property
    def shortcut(self) -> str:
        name = f"{self.target.name}-{self.spec.name}"
        return self._around.shortcut(name, (self.spec, self.variant, self.target))

    @property
    def what(self) -> str:
        return describe(self.spec, self.variant, self.target)

    @property
    def warmup(self) -> str:
        return warmup_command(self.spec, self.variant, self.target)

    def inputs(self) -> Iterable[str]:
        sources = [str(self._source.path)] if self._source.path else []
        return [*sources, *rendering_files(), *self._around.toolchain.looked_at(self.target)]

    def render(self) -> Recipe:
        parts = {
            TEXT: render_launcher(self.spec, self.variant, self._source.read(), self._source.name),
            "flags": "\n".join((*self._flags.compile, *self._flags.link)),
            PATHS: "\n".join(map(str, self._flags.include_dirs)),
        }
        if self.spec.forbid_spills:
            parts["spills"] = "forbidden"
        # a checkout that moves takes its sources along
        own = {"kernels": self._directory} if self._directory else {}
        own |= {f"include-{number}": path for number, path in enumerate(self.spec.include_dirs)}
        return self._around.recipe(self.target.name, self.spec.name, parts, self.target, own)

    def make(self, staging: Path) -> Product:
        from tkjit import build

        around = self._around
        if not self.target.is_cpu:
            around.toolchain.check_arch(self.target)
        unit = build.Unit(
            self.what,
            "launcher.cu",
            self.recipe.text,
            around.failure_directory(self.recipe),
            self._source.path,
            search=(*self._flags.search, *around.header_path),
            libraries=self._flags.libraries if self._flags.links else None,
            may_spill=not self.spec.forbid_spills,
        )
        return build.compile_shared_object(
            unit,
            staging,
            lambda *files: around.toolchain.command(self.target, self._flags, *files),
            around.open_launcher,
        )

    def opened(self, module: str, path: Path) -> int:
        return self._around.open_launcher(path)

    def explain(self, error: CompileError) -> TkjitError:
        reason = _why_not_on_the_cpu(self._source) if self.target.is_cpu else ""
        return ToolchainError(f"{self.spec.name} cannot run on the CPU: {reason}\n{error}") if reason else error

    @cached_property
    def _flags(self) -> Flags:
        return launcher_flags(self.spec, self.target, self._directory)

    @property
    def _directory(self) -> Path | None:
        return self._source.path.parent if self._source.path else None


def _source(spec: Spec, target: Target) -> Source:
    """The source that serves a target."""
    source = spec.source_for(target.arch)
    if source is None:
        known = ", ".join(arch for arch, _ in spec.sources)
        raise ToolchainError(f"{spec.name} has no source for {target.name}; it has sources for {known}")
    return source


def _why_not_on_the_cpu(source: Source) -> str:
    """What a C++ compiler cannot take of a CUDA source, looked for when it has refused it."""
    lines = [line.split("//")[0] for line in source.read().splitlines()]
    reasons = {
        "<<<": "launches with <<<...>>>, which a C++ compiler does not read; give another source with cpu=",
        "extern __shared__": "declares extern __shared__; TKJIT_DYNAMIC_SHARED (tkjit/shared_memory.cuh) works on both",
    }
    for mark, reason in reasons.items():
        for number, line in enumerate(lines, 1):
            if mark in line:
                return f"{source.path or source.name}:{number} {reason}"
    return ""
