"""Plans of the three things that are built: the runtime, a kernel's glue, a variant's launcher."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import MappingProxyType, ModuleType

from tkjit import flags
from tkjit.cache import PATHS, TEXT, Product, Recipe
from tkjit.config import Settings
from tkjit.errors import CompileError, TkjitError, ToolchainError
from tkjit.flags import launcher_flags
from tkjit.loader.plan import Plan, describe, warmup_command
from tkjit.render import render_glue, render_launcher
from tkjit.spec import Source, Spec, Variant
from tkjit.targets import Target
from tkjit.toolchain import Toolchain

# the Python and platform that a module is for, cpython-311-x86_64-linux-gnu; sysconfig takes a millisecond to say it
ABI = EXTENSION_SUFFIXES[0].removesuffix(".so").strip(".")
GLUE, RUNTIME = "glue", "runtime"
_GLUE_FLAGS = ("-O2", "-fvisibility=hidden")
# 6 s of the runtime's compilation are pybind11's and torch's headers; -g0 because nobody steps through them
_RUNTIME_FLAGS = ("-O2", "-g0", "-fvisibility=hidden")
# headers of the machine's own, in which nothing is looked for unless it is there
_LOCAL_HEADERS = Path("/usr/local/include")


class Planner:
    """Makes plans, for one set of settings.

    Parameters
    ----------
    failure_directory : callable
        Where a recipe's failed build stays.
    open_launcher : callable
        Loads a launcher's shared object and returns its address.
    """

    def __init__(
        self,
        settings: Settings,
        toolchain: Toolchain,
        failure_directory: Callable[[Recipe], Path],
        open_launcher: Callable[[Path], int],
    ) -> None:
        self._settings = settings
        self._toolchain = toolchain
        self._failure_directory = failure_directory
        self._open_launcher = open_launcher

    def runtime(self) -> Plan:
        text = "#include <runtime.cpp>\n"
        return self._module(RUNTIME, RUNTIME, lambda: text, _RUNTIME_FLAGS, "the runtime (once per environment)", ())

    def glue(self, specs: Sequence[Spec]) -> Plan:
        name = specs[0].name
        return self._module(GLUE, name, lambda: render_glue(specs), _GLUE_FLAGS, f"the glue of {name}", specs)

    def _module(
        self,
        arch: str,
        name: str,
        render: Callable[[], str],
        cflags: tuple[str, ...],
        what: str,
        specs: Sequence[Spec],
    ) -> Plan:
        built: dict[str, ModuleType] = {}

        def recipe() -> Recipe:
            return self._recipe(arch, name, {TEXT: render(), "flags": " ".join(cflags)})

        def make(staging: Path, recipe: Recipe) -> Product:
            from tkjit import build

            self._toolchain.check_python_headers()
            include_dirs = [flags.RUNTIME, flags.INCLUDE]
            search = (*include_dirs, *self._header_path)
            unit = build.Unit(what, f"{arch}.cpp", recipe.text, self._failure_directory(recipe), search=search)
            cxx = self._toolchain.cxx.path
            product, module = build.compile_module(unit, staging, cxx=cxx, include_dirs=include_dirs, cflags=[*cflags])
            built[module.__name__] = module
            return product

        def opened(module: str, path: Path) -> ModuleType:
            # what this process has built it has imported, under a name that no other module has
            return built[module] if module in built else _import_module(module, path)

        return Plan(
            what,
            self._shortcut(f"{arch}-{name}", specs),
            lambda: [*(_rendering_files() if specs else ()), __file__, *self._toolchain.looked_at()],
            recipe,
            make,
            opened,
            warmup_command(specs[0]) if specs else "python -m tkjit warmup",
        )

    def launcher(self, spec: Spec, variant: Variant, target: Target) -> Plan:
        source = self.source(spec, target)
        directory = source.path.parent if source.path else None
        own_flags = launcher_flags(spec, target, directory)
        what = describe(spec, variant, target)

        def recipe() -> Recipe:
            parts = {
                TEXT: render_launcher(spec, variant, source.read(), source.name),
                "flags": "\n".join((*own_flags.compile, *own_flags.link)),
                PATHS: "\n".join(map(str, own_flags.include_dirs)),
            }
            if spec.forbid_spills:
                parts["spills"] = "forbidden"
            # a checkout that moves takes its sources along
            own = {"kernels": directory} if directory else {}
            own |= {f"include-{number}": path for number, path in enumerate(spec.include_dirs)}
            return self._recipe(target.name, spec.name, parts, target, own)

        def make(staging: Path, recipe: Recipe) -> Product:
            from tkjit import build

            if not target.is_cpu:
                self._toolchain.check_arch(target)
            unit = build.Unit(
                what,
                "launcher.cu",
                recipe.text,
                self._failure_directory(recipe),
                source.path,
                search=(*own_flags.search, *self._header_path),
                libraries=own_flags.libraries if own_flags.links else None,
                may_spill=not spec.forbid_spills,
            )
            return build.compile_shared_object(
                unit,
                staging,
                lambda *files: self._toolchain.command(target, own_flags, *files),
                self._open_launcher,
            )

        def explain(error: CompileError) -> TkjitError:
            reason = _why_not_on_the_cpu(source) if target.is_cpu else ""
            return ToolchainError(f"{spec.name} cannot run on the CPU: {reason}\n{error}") if reason else error

        sources = [str(source.path)] if source.path else []
        return Plan(
            what,
            self._shortcut(f"{target.name}-{spec.name}", (spec, variant, target)),
            lambda: [*sources, *_rendering_files(), *self._toolchain.looked_at(target)],
            recipe,
            make,
            lambda module, path: self._open_launcher(path),
            warmup_command(spec, variant, target),
            explain,
        )

    def _shortcut(self, name: str, values: object) -> str:
        """A name for what is made from some values under these settings: their ``repr`` says all of them."""
        digest = hashlib.sha256(repr((values, self._decisive, self._environment, flags.PACKAGE)).encode())
        return f"{name}-{digest.hexdigest()[:16]}"

    def _recipe(
        self,
        arch: str,
        name: str,
        parts: dict[str, str],
        target: Target | None = None,
        own: Mapping[str, Path] = MappingProxyType({}),
    ) -> Recipe:
        common, site_packages = self._environment
        directories = {"site-packages": site_packages, **self._toolchain.anchors(target), **own}
        return Recipe(
            arch,
            name,
            tuple(sorted({**parts, **common}.items())),
            tuple((anchor, str(path)) for anchor, path in directories.items()),
            self._toolchain.versions(target),
            ("tkjit", *own),
        )

    @cached_property
    def _decisive(self) -> Settings:
        """The settings without those that decide nothing of a recipe, nor of where it is looked up."""
        return replace(
            self._settings, jit=True, record=None, cache_limit_bytes=None, cache_shared=False, kernel_path=()
        )

    @cached_property
    def _environment(self) -> tuple[dict[str, str], Path]:
        """What every key holds, and where Python's packages lie."""
        import torch

        parts = {"python": ABI, "torch": str(torch.__version__), "environment": self._settings.compiler_environment}
        return parts, Path(torch.__file__).parents[1]

    @property
    def _header_path(self) -> tuple[Path, ...]:
        return (*self._settings.header_path, _LOCAL_HEADERS)

    def source(self, spec: Spec, target: Target) -> Source:
        """The source that serves a target.

        Raises
        ------
        ToolchainError
            If the spec has none for it.
        """
        source = spec.source_for(target.arch)
        if source is None:
            known = ", ".join(arch for arch, _ in spec.sources)
            raise ToolchainError(f"{spec.name} has no source for {target.name}; it has sources for {known}")
        return source


@cache
def _rendering_files() -> list[str]:
    """The code that makes recipes of specs: what it says of one, it says until it is edited."""
    alone = [f"{room}.py" for room in "expr flags targets toolchain loader/planner cache/recipe".split()]
    return sorted(str(path) for name in [*alone, "spec/*.py", "render/*.py"] for path in flags.PACKAGE.glob(name))


def _import_module(name: str, path: Path) -> ModuleType:
    """Import a module that ``load_inline`` made, without ``cpp_extension``."""
    from importlib.machinery import ExtensionFileLoader, ModuleSpec
    from importlib.util import module_from_spec

    spec = ModuleSpec(name, ExtensionFileLoader(name, str(path)), origin=str(path))
    module = module_from_spec(spec)
    if spec.loader is not None:
        spec.loader.exec_module(module)
    return module


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
