"""From specs to what runs: joins rendering, keys, the cache and the compilers; chooses variants; holds the runtime."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tkjit import targets, toolchain
from tkjit.cache import PATHS, Cache, Entry, Product, Recipe
from tkjit.config import Settings
from tkjit.errors import CompileError, TkjitError, ToolchainError
from tkjit.progress import announce
from tkjit.render import render_glue, render_launcher
from tkjit.spec import Source, Spec, Variant, variants_of
from tkjit.targets import Target
from tkjit.toolchain import Toolchain

if TYPE_CHECKING:
    import torch

GLUE, RUNTIME = "glue", "runtime"
_GLUE_FLAGS = ["-O2", "-fvisibility=hidden"]
# 6 s of the runtime's compilation are pybind11's and torch's headers; -g0 because nobody steps through them
_RUNTIME_FLAGS = ["-O2", "-g0", "-fvisibility=hidden"]
Guess: TypeAlias = tuple[Spec, Variant, str, int]  # of a first call: the device's type and index stand last
# the Python and platform that a module is for, cpython-311-x86_64-linux-gnu; sysconfig takes a millisecond to say it
_ABI = EXTENSION_SUFFIXES[0].removesuffix(".so").strip(".")


class Meanwhile(NamedTuple):
    """What is built while something else is: its name for a person, and the work."""

    what: str
    work: Callable[[], object]


class Loader:
    """Builds and opens what calls need, for one set of settings."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.cache = Cache(settings.cache_root, _ABI)
        self.toolchain = Toolchain(settings, self.cache.tools_memo)
        # what a build beside another one failed with, until the call that needs it asks
        self._failures: dict[Recipe, TkjitError] = {}
        self._runtime: ModuleType | None = None
        self._runtime_lock = threading.Lock()

    # ---- modules

    @property
    def runtime(self) -> ModuleType:
        """The module that every glue uses, built once per environment and imported once per process."""
        with self._runtime_lock:
            if self._runtime is None:
                self._runtime = self._build_runtime()
        return self._runtime

    def _build_runtime(self) -> ModuleType:
        text = "#include <runtime.cpp>\n"
        recipe = self._module_recipe(RUNTIME, RUNTIME, text, _RUNTIME_FLAGS)
        return self._module(recipe, text, _RUNTIME_FLAGS, "the runtime (once per environment)")

    def glue(self, specs: Sequence[Spec], meanwhile: Callable[[], Meanwhile | None] | None = None) -> ModuleType:
        """A kernel's glue; where it has to be built, what ``meanwhile`` gives is built beside it."""
        text, name = render_glue(specs), specs[0].name
        return self._module(
            self._module_recipe(GLUE, name, text, _GLUE_FLAGS), text, _GLUE_FLAGS, f"the glue of {name}", meanwhile
        )

    def _module_recipe(self, room: str, name: str, text: str, cflags: list[str]) -> Recipe:
        parts = {"text": text, "flags": " ".join(cflags), "cxx": self.toolchain.cxx.version}
        return self._recipe(room, name, parts)

    def _module(
        self,
        recipe: Recipe,
        text: str,
        cflags: list[str],
        what: str,
        meanwhile: Callable[[], Meanwhile | None] | None = None,
    ) -> ModuleType:
        built: list[ModuleType] = []

        def compile_it(staging: Path) -> Product:
            from tkjit import build

            self.toolchain.check_python_headers()
            unit = build.Unit(what, f"{recipe.arch}.cpp", text, self.cache.failure_directory(recipe))
            include_dirs = [toolchain.RUNTIME, toolchain.INCLUDE]
            cxx = self.toolchain.cxx.path
            product, module = build.compile_module(unit, staging, cxx=cxx, include_dirs=include_dirs, cflags=cflags)
            built.append(module)
            return product

        if (entry := self.cache.lookup(recipe)) is None:
            beside = meanwhile() if meanwhile else None
            with announce(beside.what if beside else what), _at_once(beside):
                entry = self.cache.build(recipe, compile_it)
        return built[0] if built else _import_module(str(entry.manifest["module"]), entry.shared_object)

    # ---- launchers

    def launcher(self, spec: Spec, variant: Variant, target: Target, *, beside: bool = False) -> Entry:
        """A variant's entry, built if it is not in the cache.

        Parameters
        ----------
        beside : bool
            Whether it is built beside something else, before a call asks for it: a failure is kept for that call.
        """
        source = self.source(spec, target)
        text = render_launcher(spec, variant, source.read(), source.name)
        directory = source.path.parent if source.path else None
        compiler = self.toolchain.compiler(target)
        flags = self.toolchain.flags(spec, target, directory)
        parts = {
            "text": text,
            "flags": "\n".join((*flags.compile, *flags.link)),
            PATHS: "\n".join(flags.paths),
            "compiler": compiler.version,
            "cxx": self.toolchain.cxx.version,
        }
        # a checkout that moves takes its sources along
        recipe = self._recipe(target.name, spec.name, parts, {"kernels": directory} if directory else {})
        what = _describe(spec, variant, target)

        def compile_it(staging: Path) -> Product:
            from tkjit import build

            if not target.is_cpu:
                self.toolchain.check_arch(target)
            unit = build.Unit(what, "launcher.cu", text, self.cache.failure_directory(recipe), source.path)
            return build.compile_shared_object(
                unit,
                staging,
                lambda *files: self.toolchain.command(target, flags, *files),
                lambda path: self.runtime.open_launcher(str(path)),
            )

        if (entry := self.cache.lookup(recipe)) is not None:
            return entry
        if (kept := self._failures.pop(recipe, None)) is not None:
            raise kept
        try:
            with announce(what):
                return self.cache.build(recipe, compile_it)
        except TkjitError as error:
            failure = error
            if isinstance(error, CompileError) and target.is_cpu and (reason := _why_not_on_the_cpu(source)):
                failure = ToolchainError(f"{spec.name} cannot run on the CPU: {reason}\n{error}")
            if beside:
                self._failures[recipe] = failure
            raise failure from (None if failure is error else error)

    def address(self, spec: Spec, variant: Variant, target: Target) -> int:
        """The address of a variant's launch function."""
        return int(self.runtime.open_launcher(str(self.launcher(spec, variant, target).shared_object)))

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

    def target(self, device_type: str, device: int = 0) -> Target:
        """What a device runs."""
        if device_type == "cpu":
            return targets.cpu_target()
        import torch

        return targets.gpu_target(targets.arch_of_capability(*torch.cuda.get_device_capability(device)))

    # ---- both side by side

    def prepare(self, specs: Sequence[Spec], guess: Callable[[], Guess | None]) -> ModuleType:
        """The glue; where it has to be built, beside it the launcher that the first call will most likely need."""

        def launcher() -> Meanwhile | None:
            if (likely := guess()) is None:
                return None
            spec, variant, device_type, device = likely
            target = self.target(device_type, device)

            def work() -> None:
                with suppress(TkjitError):
                    self.launcher(spec, variant, target, beside=True)

            return Meanwhile(_describe(spec, variant, target), work)

        return self.glue(specs, meanwhile=launcher)

    def _recipe(
        self, arch: str, name: str, parts: Mapping[str, str], anchors: Mapping[str, Path] | None = None
    ) -> Recipe:
        import torch

        common = {"python": _ABI, "torch": str(torch.__version__), "environment": self.settings.compiler_environment}
        directories = {"site-packages": Path(torch.__file__).parents[1], **self.toolchain.anchors(), **(anchors or {})}
        return Recipe(
            arch,
            name,
            tuple(sorted({**parts, **common}.items())),
            tuple((name, str(path)) for name, path in directories.items()),
        )


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


def _describe(spec: Spec, variant: Variant, target: Target) -> str:
    """What a person reads while it is built: ``gemm (T=float32) for sm_90a``."""
    return f"{spec.name}{f' ({variant})' if variant.values else ''} for {target.name}"


@contextmanager
def _at_once(meanwhile: Meanwhile | None) -> Iterator[None]:
    """Do the work in a thread while the block runs. It only saves time, and raises nothing."""
    if meanwhile is None:
        yield
        return
    thread = threading.Thread(target=meanwhile.work)
    thread.start()
    try:
        yield
    finally:
        thread.join()


@cache
def loader_for(settings: Settings) -> Loader:
    """The process's loader for these settings."""
    return Loader(settings)


def guess_variant(specs: Sequence[Spec], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Guess | None:
    """Which variant a call will need, before there is glue to say it; None where that is not plain to see.

    Only what is built first depends on it: the glue decides, and asks for another launcher if this was wrong.
    """
    import torch

    for spec in specs:
        positional = [f.name for f in spec.fields if not f.keyword_only]
        given = {**dict(zip(positional, args, strict=False)), **kwargs}
        tensors = {f.name: given[f.name] for f in spec.tensors if isinstance(given.get(f.name), torch.Tensor)}
        if any(f.is_required and f.name not in (tensors if f.is_tensor else given) for f in spec.fields):
            continue
        variant = Variant(tuple((name, _observed(spec, name, tensors, given)) for name, _ in spec.variants))
        device = next(iter(tensors.values())).device
        if device.type in ("cpu", "cuda") and variant in variants_of(spec):
            return spec, variant, device.type, device.index or 0
    return None


def _observed(spec: Spec, name: str, tensors: Mapping[str, torch.Tensor], given: Mapping[str, Any]) -> str | int:
    """The dtype or integer that the arguments give a variant's name; -1 if they give none."""
    if name in spec.type_variants:
        chooser = next(f for f in spec.tensors if f.dtype == name and f.name in tensors)
        return str(tensors[chooser.name].dtype).removeprefix("torch.")
    field = next((f for f in spec.fields if f.name == name), None)
    if field is not None:
        value = given.get(name, field.default)
        return value if isinstance(value, int) else -1
    binder, index = spec.binder(name)
    shape = tensors[binder.name].shape if binder.name in tensors else ()
    return int(shape[index - len(binder.dims)]) if len(shape) >= len(binder.dims) else -1
