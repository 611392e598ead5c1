"""Plans that build launchers, one for each variant and target.

A warm call builds nothing, so modules that only a build needs are imported inside the functions that use them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from tkjit.cache import PATHS, TEXT, Product, Recipe
from tkjit.compile.flags import Flags, launcher_flags
from tkjit.compile.targets import NEWEST_MODEL, Target, generation, modelled_arch
from tkjit.errors import CompileError, TkjitError, ToolchainError
from tkjit.headers import check_complete
from tkjit.loader.environment import Environment, rendering_files
from tkjit.loader.plan import Plan
from tkjit.loader.simulator import simulator_flags_of, with_simulator_sources
from tkjit.loader.torch_files import torch_files
from tkjit.loader.variant_names import describe, warmup_command
from tkjit.spec import HeaderLibrary, Source, Spec, Variant
from tkjit.spec.variants import with_names
from tkjit.system.fork_safe import cached_property
from tkjit.torch_headers.declarations import declarations_of_spec

if TYPE_CHECKING:
    from tkjit.compile.compiler import Step, Unit
    from tkjit.compile.nvrtc import Nvrtc
    from tkjit.loader.device_code import Choice, DeviceCode

_LAUNCHER = "launcher.so"
_MENTIONS_MAIN = re.compile(r"\b(?:tkjit_source_)?main\b(?!\.)")


class LauncherPlan(Plan):
    """Builds a variant's launcher for a target.

    Raises
    ------
    ToolchainError
        If the spec has no source for the target.
    """

    def __init__(self, env: Environment, spec: Spec, variant: Variant, target: Target) -> None:
        self._env = env
        self.spec, self.variant, self.target = spec, variant, target
        self._source = _source(spec, target)
        arch = modelled_arch((known for known, _ in spec.sources), target.model)
        if target.is_cpu and "cpu" not in dict(spec.sources) and generation(arch) > generation(NEWEST_MODEL):
            raise ToolchainError(
                f"{spec.name} is written for sm_{arch}, which the simulator does not model; it models "
                f"sm_{NEWEST_MODEL} and older"
            )
        for library in spec.headers:
            if target.is_cpu and not library.runs_on_cpu:
                raise ToolchainError(f"{spec.name} uses {library.name}, which compiles only for GPUs")

    @cached_property
    def warm_key(self) -> str:
        name = f"{self.target.name}-{self.spec.name}{self._suffix}"
        return self._env.warm_key(name, (self.spec, self.variant, self.target))

    @property
    def source(self) -> Source:
        """The source for the target."""
        return self._source

    @property
    def what(self) -> str:
        return describe(self.spec, self.variant, self.target)

    @property
    def warmup(self) -> str:
        return warmup_command(self.spec, self.variant, self.target)

    def inputs(self) -> Iterable[str]:
        sources = [str(self._source.path)] if self._source.path else []
        return [*sources, *rendering_files(), *self._env.toolchain.searched_paths(self.target)]

    def render(self) -> Recipe:
        from tkjit.loader import translation

        text, on_cpu = self._source.read(), self.target.is_cpu
        parts = {
            TEXT: self.text(),
            "flags": "\n".join((*self._flags.compile, *self._flags.link)),
            PATHS: "\n".join(map(str, self._flags.include_dirs)),
        }
        if on_cpu and translation.may_be_needed(text):
            parts["translator"] = translation.digest()
        if self.target.is_cpu:
            parts["simulator"] = simulator_flags_of(self.target, for_debugger=self._env.for_debugger)
        elif program := self._program():
            parts["program"] = program
        parts |= self._more_parts
        name = f"{self.spec.name}{self._suffix}"
        return self._env.recipe(self.target.name, name, parts, self.target, self._own, self.compiler.nvrtc)

    def text(self) -> str:
        """Return the launcher's source."""
        from tkjit.render import render_launcher

        return render_launcher(
            self.spec,
            self.variant,
            self._source.read(),
            self._source.name,
            on_cpu=self.target.is_cpu,
            checks_bounds=self._checks_bounds,
            preamble=declarations_of_spec(self.spec, self._source),
        )

    def _program(self) -> str:
        """Return the launch program as text; empty if the launch needs host code."""
        from tkjit.render.launch_program import launch_program
        from tkjit.render.launcher import why_host_code

        if why_host_code(self.spec):
            return ""
        return repr(launch_program(with_names(self.spec, self.variant), self.variant))

    @cached_property
    def compiler(self) -> Choice:
        """The compiler for the device code."""
        from tkjit.loader.device_code import Choice, choose

        if self.target.is_cpu or not self._can_use_nvrtc:
            return Choice()
        return choose(self.spec, self._source.read(), self.target, self._env)

    # Whether NVRTC may compile the device code. It may not for an object that is linked into a library.
    _can_use_nvrtc = True

    # Subclasses set these to add text to the name and parts to the recipe.
    _suffix = ""
    _more_parts: Mapping[str, str] = MappingProxyType({})

    def make(self, staging: Path) -> Product:
        from tkjit.loader.device_code import DeviceCode, NeedsNvcc

        self._check()
        why_nvcc = self.compiler.reason
        if self.compiler.nvrtc is not None:
            try:
                return self._make_with_nvrtc(staging, self.compiler.nvrtc)
            except NeedsNvcc as refusal:
                why_nvcc = str(refusal)
                for name in DeviceCode.files:
                    (staging / name).unlink(missing_ok=True)
        if not self.target.is_cpu:
            self._check_nvcc(why_nvcc)
            self._env.toolchain.check_arch(self.target)
        product = self._make_whole(staging)
        return replace(product, facts={**product.facts, "why_nvcc": why_nvcc}) if why_nvcc else product

    def _check(self) -> None:
        """Reject missing headers and detectable mistakes in the source before any compiler runs."""
        from tkjit.loader import source_errors

        check_complete(self.spec)
        source_errors.check_source(self.spec, self._source)

    def _make_whole(self, staging: Path) -> Product:
        """Build with a single compiler: nvcc, or the C++ compiler with the simulator."""
        from tkjit.compile import compiler

        env = self._env
        objects = [env.simulator(self.target, "")] if self.target.is_cpu else []

        def commands(source: Path, output: Path, depfile: Path, included: list[str]) -> list[Step]:
            line = env.toolchain.command(self.target, self._flags, source, output, depfile, objects)
            if self.target.is_cpu:
                # debug information must not contain the staging directory, which is temporary
                compiled_in = self._directory if debugged and self._directory else "."
                line.insert(1, f"-fdebug-prefix-map={staging}={compiled_in}")
                if "clang" not in env.toolchain.cxx.version:  # clang does not have this flag
                    # without it, g++ would merge all provable null dereferences into one trap, with the wrong line
                    line.insert(1, "-fno-isolate-erroneous-paths-dereference")
            return self._steps(line, source, included, is_translated)

        is_translated = self._is_translated()
        debugged = self.target.is_cpu and env.for_debugger
        # a debugger remembers the path from which a library was first loaded, and the staging directory is temporary
        check = None if debugged else env.open_launcher
        unit = self._unit()

        def make(included: list[str]) -> Product:
            return compiler.compile_binary(unit, staging, _LAUNCHER, partial(commands, included=included), check)

        return self._with_sources(self._with_header(make, unit, is_translated) if self.target.is_cpu else make([]))

    def _with_header(
        self, make: Callable[[list[str]], Product], unit: Unit, is_translated: bool, mode: str = ""
    ) -> Product:
        """Compile for the simulator with a precompiled header if one fits; ``mode`` is that of a checker."""
        from tkjit.loader import common_headers

        header = common_headers.for_launcher(self._env, self.target, self._flags, mode, is_translated=is_translated)
        return header.compile_with(make, unit, self._flags.beside_own) if header else make([])

    def _make_with_nvrtc(self, staging: Path, nvrtc: Nvrtc) -> Product:
        """Build the device code with NVRTC, and describe the launch as data.

        Raises
        ------
        NeedsNvcc
            If only nvcc can build it.
        """
        import shutil

        from tkjit.loader.device_code import NeedsNvcc, refusal

        try:
            product = self._compile_with_nvrtc(staging, nvrtc)
        except CompileError as error:
            reason = refusal(error.log)
            if self.compiler.is_asked_for or not reason:
                raise
            shutil.rmtree(self._unit().failure_directory, ignore_errors=True)
            raise NeedsNvcc(reason) from None
        return replace(product, facts={**product.facts, "nvrtc": nvrtc.version})

    def _compile_with_nvrtc(self, staging: Path, nvrtc: Nvrtc) -> Product:
        from tkjit.loader.device_code import PROGRAM

        code = self._device_code(nvrtc)
        return self._with_nvrtc(code, staging, PROGRAM, code.steps, self._env.open_launcher)

    def _device_code(self, nvrtc: Nvrtc) -> DeviceCode:
        from tkjit.loader.device_code import DeviceCode

        return DeviceCode(with_names(self.spec, self.variant), self.variant, self.target, nvrtc, self._directory)

    def _with_nvrtc(
        self,
        code: DeviceCode,
        staging: Path,
        output: str,
        steps: Callable[[Path, Path, Path], Sequence[Step]],
        check: Callable[[Path], object] | None = None,
    ) -> Product:
        from tkjit.compile import compiler

        read = code.dependencies(self.recipe.text)
        search = (*code.search, *self._env.header_path)
        unit = replace(self._unit(), search=search, libraries=None, retry_flags=None)
        product = compiler.compile_binary(unit, staging, output, steps, check)
        return replace(product, dependencies=tuple(sorted({*product.dependencies, *read})))

    def _check_nvcc(self, reason: str) -> None:
        """Raise an error that explains why a source needs nvcc, if nvcc is missing.

        Raises
        ------
        ToolchainError
            If there is no nvcc. The text contains the reason.
        """
        from tkjit.loader import source_errors

        try:
            self._env.toolchain.nvcc  # noqa: B018
        except ToolchainError as error:
            if not reason:
                raise
            first = source_errors.missing_headers(self.spec.headers, reason)  # nvcc would not find these headers either
            also = f"{first}. Then " if first else ""
            raise ToolchainError(f"{self.what}: {also}it needs nvcc because {reason}; {error}") from None

    def _steps(self, line: list[str], source: Path, included: list[str], is_translated: bool) -> list[Step]:
        """Return the steps that compile the launcher, including those that adapt its headers if ``is_translated``.

        Parameters
        ----------
        included : list of str
            Flags that include a precompiled header.
        """
        from tkjit.loader import translation

        if is_translated:
            return translation.translated(line, source, self._source.read(), self._flags, included)
        return [[line[0], *included, *line[1:]]]

    def _is_translated(self) -> bool:
        """Whether the source's headers have to be adapted. If one is edited during the build, tkjit builds again."""
        from tkjit.loader import translation

        return self.target.is_cpu and translation.is_needed(self._source.read(), self._flags)

    def _unit(self) -> Unit:
        from tkjit.compile.compiler import Unit
        from tkjit.loader import translation

        return Unit(
            self.what,
            "launcher.cu",
            self.recipe.text,
            self._env.failure_directory(self.recipe),
            self._source.path,
            search=(*self._flags.search, *self._env.header_path),
            libraries=self._flags.libraries if self._flags.links else None,
            retry_flags=self._retry_flags,
            repair=translation.repair if self.target.is_cpu else None,
            # without optimisation, the output also contains unused variables, so this check is skipped
            find_defect=self._find_defect if self.target.is_cpu and not self._env.for_debugger else None,
        )

    def _with_sources(self, product: Product) -> Product:
        """Make the product depend on the simulator, and on the files that identify torch instead of all its headers."""
        for root in [library.root for library in self._packages if library.root]:
            others = [path for path in product.dependencies if not path.is_relative_to(root)]
            product = replace(product, dependencies=tuple(sorted({*others, *torch_files(root)})))
        return with_simulator_sources(product) if self.target.is_cpu else product

    def _find_defect(self, output: Path) -> str:
        from tkjit.loader.static_shared import too_much_static_shared

        text = self._source.read()
        is_for_gpus = "cpu" not in dict(self.spec.sources)
        return too_much_static_shared(output, text, self._source.name) if is_for_gpus and "__shared__" in text else ""

    def _retry_flags(self, log: str) -> tuple[str, ...]:
        # tkjit turns main into a template (tkjit/source_main.h). If that causes the errors, compile main unchanged.
        for_main = ("-DTKJIT_COMPILE_MAIN",) if _MENTIONS_MAIN.search(log) else ()
        if not self.target.is_cpu:
            return for_main
        from tkjit.source.unsupported import retry_flags

        packages = [str(path) for library in self._packages for path in library.include_paths]
        return (*for_main, *retry_flags(log, (*self._flags.system_dirs, *packages)))

    def load(self, module: str, path: Path) -> int:
        return self._env.open_launcher(path)

    def explain(self, error: CompileError) -> TkjitError:
        from tkjit.loader import source_errors

        return source_errors.explain(error, self.spec, self._source, self.what, on_cpu=self.target.is_cpu)

    @property
    def _flags(self) -> Flags:
        return self.launcher_flags

    @cached_property
    def launcher_flags(self) -> Flags:
        """The flags with which the launcher is built on its own."""
        return launcher_flags(
            self.spec,
            self.target,
            self._directory,
            for_debugger=self._env.for_debugger,
            checks_bounds=self._checks_bounds,
        )

    @property
    def _checks_bounds(self) -> bool:
        return self.target.is_cpu

    @property
    def _packages(self) -> list[HeaderLibrary]:
        return [library for library in self.spec.headers if library.package]

    @property
    def _own(self) -> dict[str, Path]:
        """The directories of the kernel's own files, which may be elsewhere in another checkout."""
        directories = {"kernels": self._directory} if self._directory else {}
        directories |= {library.name: library.root for library in self.spec.headers if library.root}
        return directories | {f"include-{number}": path for number, path in enumerate(self.spec.include_dirs)}

    @property
    def _directory(self) -> Path | None:
        return self._source.path.parent if self._source.path else None


def _source(spec: Spec, target: Target) -> Source:
    """Return the source that a spec has for a target."""
    archs = dict(spec.sources)
    is_modelled = target.is_cpu and "cpu" not in archs and ("" not in archs or bool(target.model))
    source = spec.source_for(modelled_arch(archs, target.model) if is_modelled else target.arch)
    if source is None:
        known = ", ".join(arch for arch, _ in spec.sources)
        raise ToolchainError(f"{spec.name} has no source for {target.name}; it has sources for {known}")
    return source
