"""From specs to what runs: joins rendering, keys, the cache and the compilers; chooses variants; holds the runtime."""

from __future__ import annotations

import re
import sysconfig
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from tkjit import build, toolchain
from tkjit.cache import Cache, Entry, Product, Recipe
from tkjit.config import Settings
from tkjit.errors import ToolchainError
from tkjit.progress import announce
from tkjit.render import render_glue, render_launcher
from tkjit.spec import Field, Source, Spec, Variant, variants_of
from tkjit.toolchain import Target, Toolchain

GLUE, RUNTIME = "glue", "runtime"
_GLUE_FLAGS = ["-O2", "-fvisibility=hidden"]
# 6 s of the runtime's compilation are pybind11's and torch's headers; -g0 because nobody steps through them
_RUNTIME_FLAGS = ["-O2", "-g0", "-fvisibility=hidden"]
_LAUNCH_SYNTAX = re.compile(r"<<<")


class Loader:
    """Builds and opens what calls need, for one set of settings."""

    def __init__(self, settings: Settings) -> None:
        abi = str(sysconfig.get_config_var("SOABI") or "python")
        self.settings = settings
        self.cache = Cache(settings.cache_root, abi)
        self.toolchain = Toolchain(settings, self.cache.tools_memo)
        self._lock = threading.Lock()

    # ---- modules

    @cached_property
    def runtime(self) -> ModuleType:
        """The module that every glue uses, built once per environment."""
        text = '#include <runtime.cpp>\n'
        return self._module(RUNTIME, RUNTIME, text, _RUNTIME_FLAGS, "the runtime (once per environment)")

    def glue(self, specs: Sequence[Spec]) -> ModuleType:
        """A kernel's glue, built if it is not in the cache."""
        name = specs[0].name
        return self._module(GLUE, name, render_glue(specs), _GLUE_FLAGS, f"the glue of {name}")

    def _module(self, room: str, name: str, text: str, cflags: list[str], what: str) -> ModuleType:
        cxx = self.toolchain.cxx
        recipe = self._recipe(room, name, {"text": text, "flags": " ".join(cflags), "cxx": cxx.version})
        built: list[ModuleType] = []

        def compile_it(staging: Path) -> Product:
            self.toolchain.check_python_headers()
            unit = build.Unit(what, f"{room}.cpp", text, self.cache.failure_directory(recipe))
            include_dirs = [toolchain.RUNTIME, toolchain.INCLUDE]
            product, module = build.compile_module(unit, staging, cxx=cxx.path, include_dirs=include_dirs, cflags=cflags)
            built.append(module)
            return product

        entry = self._entry(recipe, compile_it, what)
        return built[0] if built else build.import_module(str(entry.manifest["module"]), entry.shared_object)

    # ---- launchers

    def launcher(self, spec: Spec, variant: Variant, target: Target) -> Entry:
        """A variant's entry, built if it is not in the cache."""
        source = self.source(spec, target)
        text = render_launcher(spec, variant, source.read(), source.name)
        directory = source.path.parent if source.path else None
        compiler = self.toolchain.compiler(target)
        flags = self.toolchain.flags(spec, target, directory)
        parts = {"text": text, "flags": "\n".join(flags), "compiler": compiler.version, "cxx": self.toolchain.cxx.version}
        # a checkout that moves takes its sources along
        recipe = self._recipe(target.name, spec.name, parts, {"kernels": directory} if directory else {})
        what = f"{spec.name}{f' ({variant})' if variant.values else ''} for {target.name}"

        def compile_it(staging: Path) -> Product:
            if not target.is_cpu:
                self.toolchain.check_arch(target)
            unit = build.Unit(what, "launcher.cu", text, self.cache.failure_directory(recipe), source.path)
            return build.compile_shared_object(
                unit,
                staging,
                lambda *files: self.toolchain.command(target, flags, *files),
                lambda path: self.runtime.open_launcher(str(path)),
            )

        return self._entry(recipe, compile_it, what)

    def address(self, spec: Spec, variant: Variant, target: Target) -> int:
        """The address of a variant's launch function."""
        return int(self.runtime.open_launcher(str(self.launcher(spec, variant, target).shared_object)))

    def source(self, spec: Spec, target: Target) -> Source:
        """The source that serves a target.

        Raises
        ------
        ToolchainError
            If the spec has none for it, or it cannot be compiled for the CPU.
        """
        source = spec.source_for(target.arch)
        if source is None:
            known = ", ".join(arch for arch, _ in spec.sources)
            raise ToolchainError(f"{spec.name} has no source for {target.name}; it has sources for {known}")
        if target.is_cpu and "cpu" not in dict(spec.sources):
            for number, line in enumerate(source.read().splitlines(), 1):
                if _LAUNCH_SYNTAX.search(line.split("//")[0]):
                    where = f"{source.path or source.name}:{number}"
                    raise ToolchainError(
                        f"{spec.name} cannot run on the CPU: {where} launches with <<<...>>>, which a C++ compiler does "
                        "not read; give the spec another source with cpu="
                    )
        return source

    def target(self, device_type: str, device: int = 0) -> Target:
        """What a device runs."""
        if device_type == "cpu":
            return toolchain.cpu_target()
        import torch

        return toolchain.gpu_target(toolchain.arch_of_capability(*torch.cuda.get_device_capability(device)))

    # ---- both at once

    def prepare(self, specs: Sequence[Spec], guess: tuple[Spec, Variant, str, int] | None) -> ModuleType:
        """The glue, and beside it the launcher that a first call will most likely need."""
        if guess is None:
            return self.glue(specs)
        spec, variant, device_type, device = guess
        with ThreadPoolExecutor(1) as pool:
            target = self.target(device_type, device)
            launcher = pool.submit(self.launcher, spec, variant, target)
            glue = self.glue(specs)
            # a launcher that fails here is asked for again by the call, which raises its error
            launcher.exception()
        return glue

    def _entry(self, recipe: Recipe, compile_it: Callable[[Path], Product], what: str) -> Entry:
        if (entry := self.cache.lookup(recipe)) is not None:
            return entry
        with announce(what):
            return self.cache.build(recipe, compile_it)

    def _recipe(self, arch: str, name: str, parts: Mapping[str, str], anchors: Mapping[str, Path] | None = None) -> Recipe:
        import torch

        common = {"python": str(sysconfig.get_config_var("SOABI")), "torch": str(torch.__version__)}
        directories = {**self.toolchain.anchors(), **(anchors or {})}
        return Recipe(
            arch,
            name,
            tuple(sorted({**parts, **common}.items())),
            tuple((name, str(path)) for name, path in directories.items()),
        )


@lru_cache(maxsize=None)
def loader_for(settings: Settings) -> Loader:
    """The process's loader for these settings."""
    return Loader(settings)


def guess_variant(specs: Sequence[Spec], args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Spec, Variant, str, int] | None:
    """Which variant a call will need, before there is glue to say it; None where that is not plain to see.

    Only what is built first depends on it: the glue decides, and asks for another launcher if this was wrong.
    """
    for spec in specs:
        positional = [f.name for f in spec.fields if not f.keyword_only]
        given = {**dict(zip(positional, args, strict=False)), **kwargs}
        tensors = {f.name: given[f.name] for f in spec.tensors if hasattr(given.get(f.name), "shape")}
        if any(f.is_required and f.name not in (tensors if f.is_tensor else given) for f in spec.fields):
            continue
        values = tuple((name, _observed(spec, name, tensors, given)) for name, _ in spec.variants)
        device = getattr(next(iter(tensors.values())), "device", None)
        if device is not None and Variant(values) in variants_of(spec):
            return spec, Variant(values), str(device.type), int(device.index or 0)
    return None


def _observed(spec: Spec, name: str, tensors: Mapping[str, Any], given: Mapping[str, Any]) -> str | int:
    """The dtype or integer that the arguments give a variant's name."""
    if name in spec.type_variants:
        chooser = next(f for f in spec.tensors if f.dtype == name and f.name in tensors)
        return str(tensors[chooser.name].dtype).removeprefix("torch.")
    field: Field | None = next((f for f in spec.fields if f.name == name), None)
    if field is not None:
        return int(given.get(name, field.default))
    binder, index = spec.binder(name)
    shape = tensors[binder.name].shape if binder.name in tensors else ()
    return int(shape[index - len(binder.dims)]) if len(shape) >= len(binder.dims) else -1


