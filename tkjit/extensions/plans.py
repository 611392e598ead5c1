"""What is compiled and kept of an extension: an object of each source, and the module that is linked of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tkjit.cache import PATHS, TEXT, Entry, Product, Recipe
from tkjit.compile.flags import INCLUDE, STAND_INS
from tkjit.extensions import sources
from tkjit.extensions.sources import Extension, Source
from tkjit.loader import environment
from tkjit.loader.environment import Environment
from tkjit.loader.plan import Plan
from tkjit.system.fork_safe import cached_property

if TYPE_CHECKING:
    from tkjit.compile.compiler import Unit

OBJECT, MODULE = "extension_object", "extension"


class _ExtensionPlan(Plan):
    warmup = "a call of tkjit.cpp_extension.load"

    def __init__(self, env: Environment, extension: Extension) -> None:
        self._env = env
        self._extension = extension

    def inputs(self) -> Iterable[str]:
        searched = self._env.toolchain.searched_paths(self._extension.target)
        return [__file__, sources.__file__, environment.__file__, *searched]

    def load(self, module: str, path: Path) -> Path:
        return path

    def _unit(self, file: str, source: Path | None = None, search: tuple[Path, ...] = ()) -> Unit:
        from tkjit.compile.compiler import Unit

        failures = self._env.failure_directory(self.recipe)
        return Unit(self.what, file, self.recipe.text, failures, source, search=(*search, *self._env.header_path))


class ObjectPlan(_ExtensionPlan):
    """The object of one source."""

    def __init__(self, env: Environment, extension: Extension, source: Source) -> None:
        super().__init__(env, extension)
        self._source = source

    @cached_property
    def warm_key(self) -> str:
        return self._env.warm_key(f"{OBJECT}-{self._extension.name}", (self._source, *self._values))

    @property
    def what(self) -> str:
        return f"{self._source.name} of the extension {self._extension.name}"

    def render(self) -> Recipe:
        own = {"source": self._source.directory} if self._source.directory else {}
        parts = {
            TEXT: self._source.text,
            "flags": "\n".join(self._flags),
            PATHS: "\n".join(map(str, self._include_dirs)),
        }
        target = self._extension.target if self._source.is_cuda else None
        return self._env.recipe(OBJECT, self._extension.name, parts, target, own)

    def make(self, staging: Path) -> Product:
        from tkjit.compile import compiler

        toolchain = self._env.toolchain
        python = toolchain.check_python_headers()
        target = self._extension.target
        if self._source.is_cuda and target is not None:
            toolchain.check_arch(target)
            first = [str(toolchain.nvcc.path), "-x", "cu", f"-ccbin={toolchain.cxx.path}"]
        else:
            first = [str(toolchain.cxx.path), "-x", "c++"]
        directories = [f"-I{directory}" for directory in self._include_dirs]

        def commands(source: Path, output: Path, depfile: Path) -> list[list[str]]:
            files = ["-MD", "-MF", str(depfile), "-c", str(source), "-o", str(output)]
            return [[*first, *self._flags, *directories, "-isystem", str(python), *files]]

        unit = self._unit(f"unit{Path(self._source.name).suffix}", self._source.path, self._include_dirs)
        return compiler.compile_binary(unit, staging, "object.o", commands)

    @property
    def _values(self) -> Sequence[object]:
        return (self._flags, self._include_dirs)

    @cached_property
    def _flags(self) -> tuple[str, ...]:
        return self._extension.flags_of(self._source)

    @cached_property
    def _include_dirs(self) -> tuple[Path, ...]:
        own = (self._source.directory,) if self._source.directory else ()
        return (*own, *self._extension.include_dirs, *_torch_headers(self._extension))


class LinkPlan(_ExtensionPlan):
    """The module of all objects."""

    def __init__(self, env: Environment, extension: Extension, objects: Sequence[Entry]) -> None:
        super().__init__(env, extension)
        self._objects = objects

    @cached_property
    def warm_key(self) -> str:
        return self._env.warm_key(f"{MODULE}-{self._extension.name}", self._identities + self._flags)

    @property
    def what(self) -> str:
        return f"the extension {self._extension.name}"

    def render(self) -> Recipe:
        parts = {TEXT: "\n".join(self._identities), "flags": "\n".join(self._flags)}
        return self._env.recipe(MODULE, self._extension.name, parts, self._extension.target)

    def make(self, staging: Path) -> Product:
        from tkjit.compile import compiler

        toolchain = self._env.toolchain
        objects = [str(entry.shared_object) for entry in self._objects]
        if self._extension.arch:
            linker = [str(toolchain.nvcc.path), f"-ccbin={toolchain.cxx.path}", f"-L{toolchain.cuda_root / 'lib'}"]
        else:
            linker = [str(toolchain.cxx.path)]

        def commands(source: Path, output: Path, depfile: Path) -> list[list[str]]:
            depfile.write_text(f"{output}: {source}\n")
            return [[*linker, "-shared", *objects, "-o", str(output), *self._flags]]

        return compiler.compile_binary(self._unit("objects.txt"), staging, f"{self._extension.name}.so", commands)

    @property
    def _identities(self) -> tuple[str, ...]:
        return tuple(f"{entry.directory.parent.name}/{entry.directory.name}" for entry in self._objects)

    @cached_property
    def _flags(self) -> tuple[str, ...]:
        import torch

        has_cuda = bool(self._extension.arch)
        libraries = ["torch_cpu"] if self._extension.has_stand_ins else ["c10", "torch_cpu", "torch", "torch_python"]
        if has_cuda and not self._extension.has_stand_ins and torch.version.cuda:
            libraries += ["c10_cuda", "torch_cuda"]
        as_needed = "-Xlinker=--no-as-needed" if has_cuda else "-Wl,--no-as-needed"
        own = [f"-L{Path(torch.__file__).parent / 'lib'}", as_needed, *(f"-l{name}" for name in libraries)]
        return (*(["-cudart=static"] if has_cuda else []), *own, *self._extension.ldflags)


def _torch_headers(extension: Extension) -> tuple[Path, ...]:
    import torch

    include = Path(torch.__file__).parent / "include"
    if extension.has_stand_ins:
        return (INCLUDE, STAND_INS / "torch", include)
    return (include, include / "torch/csrc/api/include")
