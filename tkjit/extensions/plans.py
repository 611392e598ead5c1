"""The cache entries of an extension: an object file for each source, and the module linked from them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tkjit.cache import PATHS, TEXT, Entry, Product, Recipe
from tkjit.cache.recipe import digest_of_file
from tkjit.compile.flags import CUDA_LIBRARIES, INCLUDE, SIMULATOR, STAND_INS, Flags
from tkjit.compile.includes import included_anywhere
from tkjit.errors import CompileError, TkjitError, ToolchainError
from tkjit.extensions import functions, sources
from tkjit.extensions.sources import CUDA_SYMBOLS, Extension, Source
from tkjit.headers import how_to_find_curand
from tkjit.loader import environment, translation
from tkjit.loader.environment import Environment
from tkjit.loader.plan import Plan
from tkjit.loader.simulator import simulator_flags_of, with_simulator_sources
from tkjit.source import lexer, scopes, tokens
from tkjit.system.fork_safe import cached_property
from tkjit.torch_headers import declarations, operators
from tkjit.torch_headers.needed import torch_include

if TYPE_CHECKING:
    from tkjit.compile.compiler import Unit
    from tkjit.compile.targets import Target

_PARSER = (functions.__file__, tokens.__file__, lexer.__file__, scopes.__file__)
OBJECT, MODULE, FUNCTIONS = "extension_object", "extension", "extension_functions"
PREPROCESSED, _PREPROCESSED_FILE = "extension_preprocessed", "preprocessed.ii"
LACKING = "lacking"  # the key in a manifest for the first name that the stand-ins for torch's headers lack


class _ExtensionPlan(Plan):
    warmup = "python -m tkjit warmup --record FILE -- PROGRAM, then python -m tkjit warmup --from-file FILE"

    def __init__(self, env: Environment, extension: Extension) -> None:
        self._env = env
        self._extension = extension

    def inputs(self) -> Iterable[str]:
        searched = self._env.toolchain.searched_paths(self._extension.target)
        return [__file__, sources.__file__, declarations.__file__, operators.__file__, environment.__file__, *searched]

    def load(self, module: str, path: Path) -> Path:
        return path

    def _unit(self, file: str, source: Path | None = None, search: tuple[Path, ...] = ()) -> Unit:
        from tkjit.compile.compiler import Unit

        failures = self._env.failure_directory(self.recipe)
        return Unit(self.what, file, self.recipe.text, failures, source, search=(*search, *self._env.header_path))


class _SourcePlan(_ExtensionPlan):
    """Base of the plans for one source."""

    kind: str

    def __init__(self, env: Environment, extension: Extension, source: Source) -> None:
        super().__init__(env, extension)
        self._source = source

    @cached_property
    def warm_key(self) -> str:
        return self._env.warm_key(f"{self.kind}-{self._extension.name}", (self._source, *self._values))

    @property
    def what(self) -> str:
        return f"{self._source.name} of the extension {self._extension.name}"

    def inputs(self) -> Iterable[str]:
        if not self._is_simulated:
            return super().inputs()
        # the text for the simulator contains the source, so the compiler does not report the file as a dependency
        own = [str(self._source.path)] if self._source.path else []
        return [*super().inputs(), *own, *map(str, translation.TRANSLATOR)]

    def render(self) -> Recipe:
        own = {"source": self._source.directory} if self._source.directory else {}
        parts = {
            TEXT: self._text,
            "flags": "\n".join(self._flags),
            PATHS: "\n".join(map(str, self._include_dirs)),
        }
        if self._is_simulated and translation.may_be_needed(self._source.content):
            parts["translator"] = translation.digest()
        return self._env.recipe(self.kind, self._extension.name, parts, self._target, own)

    @property
    def _unit_of_source(self) -> Unit:
        unit = self._unit(f"unit{Path(self._source.name).suffix}", self._source.path, self._include_dirs)
        return replace(unit, retry_flags=self._retry_flags) if self._is_simulated else unit

    def _retry_flags(self, log: str) -> tuple[str, ...]:
        from tkjit.source.unsupported import retry_flags

        return retry_flags(log, [str(directory) for directory in _torch_headers(self._extension)])

    def explain(self, error: CompileError) -> TkjitError:
        if hint := how_to_find_curand(error.log):
            return ToolchainError(f"{self.what} does not compile: {hint}\n{error}")
        if not self._is_simulated:
            return error
        from tkjit.source.unsupported import why_not_on_the_cpu

        name = str(self._source.path or self._unit_of_source.file)
        reason = why_not_on_the_cpu(self._source.content, name, error.log)
        return ToolchainError(f"{self.what} cannot run on the CPU: {reason}\n{error}") if reason else error

    def _write_headers(self, staging: Path) -> None:
        """Write the generated headers that the source includes to ``staging``, which the compiler searches first."""
        included = included_anywhere(self._source.content, self._extension.directories_of(self._source))
        self._env.forward_to_curand(included, staging)
        if self._extension.has_stand_ins:
            declarations.write_operator_headers(included, staging)

    def _compiler(self, staging: Path) -> list[str]:
        """Return the compiler and its flags."""
        toolchain = self._env.toolchain
        python = toolchain.check_python_headers()
        if self._target is not None and not self._is_simulated:
            toolchain.check_arch(self._target)
            first = [str(toolchain.nvcc.path), "-x", "cu", f"-ccbin={toolchain.cxx.path}"]
        else:
            first = [str(toolchain.cxx.path), "-x", "c++"]
        directories = [f"-I{directory}" for directory in (staging, *self._include_dirs)]
        system = [python]
        if self._extension.archs and not self._extension.is_simulated and self._target is None:
            # a C++ source in an extension with CUDA may call CUDA's runtime and include Thrust's headers
            system += [toolchain.cuda_root / "include", toolchain.cuda_root / "include/cccl"]
        return [
            *first,
            *self._flags,
            *directories,
            *(word for directory in system for word in ("-isystem", str(directory))),
        ]

    @cached_property
    def _text(self) -> str:
        """The text to compile: declarations of the torch operators that the source mentions, followed by the source."""
        if not self._extension.has_stand_ins or self._source == CUDA_SYMBOLS:
            return self._source_text
        return (
            declarations.declarations(self._source.content, self._extension.directories_of(self._source))
            + self._source_text
        )

    @property
    def _source_text(self) -> str:
        """The source's text. For the simulator, the file's adapted content followed by the generated module."""
        path = self._source.path
        if not self._is_simulated:
            return self._source.text
        from tkjit.source.adapt import adapt

        if path is None:
            return adapt(self._source.text)
        generated = self._source.text.removeprefix(self._source.including)
        return f"#line 1 {json.dumps(str(path))}\n{adapt(self._source.content)}\n{generated}"

    @property
    def _target(self) -> Target | None:
        return self._extension.target if self._source.is_cuda else None

    @property
    def _is_simulated(self) -> bool:
        return self._source.is_cuda and self._extension.is_simulated

    @property
    def _values(self) -> Sequence[object]:
        return (self._flags, self._include_dirs)

    @cached_property
    def _flags(self) -> tuple[str, ...]:
        return self._extension.flags_of(self._source)

    @cached_property
    def _include_dirs(self) -> tuple[Path, ...]:
        own = self._extension.directories_of(self._source)
        torch = _torch_headers(self._extension)
        if self._extension.is_simulated:
            return (SIMULATOR, *own, *torch, CUDA_LIBRARIES)
        return (*own, *torch, *((CUDA_LIBRARIES,) if self._extension.archs else ()))


class ObjectPlan(_SourcePlan):
    """Plans the object file of one source."""

    kind = OBJECT

    def make(self, staging: Path) -> Product:
        from tkjit.compile import compiler

        def commands(source: Path, output: Path, depfile: Path) -> list[compiler.Step]:
            first, kind, language, *flags = self._compiler(staging)
            file = [kind, language, str(source), "-c", "-o", str(output)]
            line = [first, *flags, "-MD", "-MF", str(depfile), *file]
            if not self._is_simulated:
                return [line]
            searched = (staging, *self._extension.directories_of(self._source))
            own = Flags((), tuple(f"-I{directory}" for directory in searched))
            content = self._source.content
            return translation.translated(line, source, content, own) if translation.is_needed(content, own) else [line]

        self._write_headers(staging)
        unit = replace(self._unit_of_source, repair=translation.repair) if self._is_simulated else self._unit_of_source
        product = compiler.compile_binary(unit, staging, "object.o", commands)
        lacking = {LACKING: self._extension.lacking} if self._extension.lacking else {}
        return replace(product, facts={**product.facts, **lacking})


class PreprocessedPlan(_SourcePlan):
    """Plans the preprocessed text of one source, with line markers."""

    kind = PREPROCESSED

    def make(self, staging: Path) -> Product:
        from tkjit.compile import compiler

        def commands(source: Path, output: Path, depfile: Path) -> list[list[str]]:
            listing = f"-MD,-MF,{depfile}"  # nvcc writes no dependency file when it only preprocesses
            is_nvcc = self._target is not None and not self._is_simulated
            dependencies = [f"-Xcompiler={listing}"] if is_nvcc else listing.split(",")
            host = ["-DTKJIT_SIM_TRANSLATES", "-DTKJIT_SIM_FOR_HOST"] if self._is_simulated else []
            return [[*self._compiler(staging), *host, "-E", *dependencies, str(source), "-o", str(output)]]

        self._write_headers(staging)
        return compiler.compile_binary(self._unit_of_source, staging, _PREPROCESSED_FILE, commands)

    @property
    def own_directories(self) -> list[Path]:
        """The directories of tkjit's, torch's and the compilers' headers, as opposed to the user's."""
        toolkit = [self._env.toolchain.cuda_root] if self._target is not None and not self._is_simulated else []
        return [INCLUDE.parent, *_torch_headers(self._extension), Path("/usr"), *toolkit]


class FunctionsPlan(PreprocessedPlan):
    """Plans the list of functions of one source that a module can expose, found in its preprocessed text."""

    kind = FUNCTIONS

    def inputs(self) -> Iterable[str]:
        return [*super().inputs(), *_PARSER]

    def render(self) -> Recipe:
        recipe = super().render()
        parser = "\n".join(digest_of_file(file) for file in _PARSER)
        return replace(recipe, parts=tuple(sorted((*recipe.parts, ("parser", parser)))))

    def make(self, staging: Path) -> Product:
        product = super().make(staging)
        preprocessed = staging / _PREPROCESSED_FILE
        main = self._source.path or staging / self._unit_of_source.file
        text = functions.lines_of(main, preprocessed.read_text(encoding="utf-8", errors="replace"))
        preprocessed.unlink()
        found = [asdict(function) for function in functions.functions_of(text)]
        (staging / "functions.json").write_text(json.dumps(found, indent=1))
        return replace(product, shared_object="functions.json")


class LinkPlan(_ExtensionPlan):
    """Plans the module that is linked from all object files."""

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
        device_linker = self._device_linker[2:] if self._links_device_code else []
        parts = {TEXT: "\n".join(self._identities), "flags": "\n".join((*self._flags, *device_linker))}
        if self._extension.is_simulated and self._extension.target is not None:
            parts["simulator"] = simulator_flags_of(self._extension.target)
        return self._env.recipe(MODULE, self._extension.name, parts, self._extension.target)

    def make(self, staging: Path) -> Product:
        from tkjit.compile import compiler

        toolchain = self._env.toolchain
        objects = [str(entry.shared_object) for entry in self._objects]
        target = self._extension.target
        if self._extension.is_simulated and target is not None:
            objects.append(str(self._env.simulator(target, "")))
        linker = str(toolchain.cxx.path)

        def commands(source: Path, output: Path, depfile: Path) -> list[compiler.Step]:
            depfile.write_text(f"{output}: {source}\n")
            if not self._links_device_code:
                return [[linker, "-shared", *objects, "-o", str(output), *self._flags]]
            device_code = output.with_name("device_code.o")
            return [
                [*self._device_linker, *objects, "-o", str(device_code)],
                [linker, "-shared", *objects, str(device_code), "-o", str(output), *self._flags],
                device_code.unlink,
            ]

        product = compiler.compile_binary(self._unit("objects.txt"), staging, f"{self._extension.name}.so", commands)
        return with_simulator_sources(product) if self._extension.is_simulated else product

    @property
    def _links_device_code(self) -> bool:
        """Whether kernels may call device functions in other sources."""
        return not self._extension.is_simulated and sources.links_device_code(self._extension.cuda_flags)

    @property
    def _device_linker(self) -> list[str]:
        toolchain = self._env.toolchain
        first = [str(toolchain.nvcc.path), f"-ccbin={toolchain.cxx.path}", "-dlink", "-Xcompiler=-fPIC"]
        return [*first, *self._extension.gencode]

    @property
    def _identities(self) -> tuple[str, ...]:
        return tuple(f"{entry.directory.parent.name}/{entry.directory.name}" for entry in self._objects)

    @cached_property
    def _flags(self) -> tuple[str, ...]:
        import torch

        has_cuda = bool(self._extension.archs) and not self._extension.is_simulated
        libraries = ["torch_cpu"] if self._extension.has_stand_ins else ["c10", "torch_cpu", "torch", "torch_python"]
        if has_cuda and not self._extension.has_stand_ins and torch.version.cuda:
            libraries += ["c10_cuda", "torch_cuda"]
        own = [f"-L{Path(torch.__file__).parent / 'lib'}", "-Wl,--no-as-needed", *(f"-l{name}" for name in libraries)]
        return (*own, *(self._cuda_runtime if has_cuda else ()), *self._extension.ldflags)

    @property
    def _cuda_runtime(self) -> tuple[str, ...]:
        """The flags that nvcc itself links with. A toolkit keeps its libraries in one of two directories."""
        root = self._env.toolchain.cuda_root
        return (f"-L{root / 'lib64'}", f"-L{root / 'lib'}", "-lcudart_static", "-lrt", "-lpthread", "-ldl")


def _torch_headers(extension: Extension) -> tuple[Path, ...]:
    include = torch_include()
    if extension.has_stand_ins:
        return (INCLUDE, STAND_INS / "torch", include)
    return (INCLUDE, include, include / "torch/csrc/api/include", STAND_INS / "torch_cuda_build")
