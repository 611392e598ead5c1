"""What is compiled and kept for bindings: a set of headers, what it declares, and the calls that were made."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Protocol

from tkjit.bindings import expressions, header_set
from tkjit.bindings.expressions import Expression, render_unit
from tkjit.bindings.header_set import HeaderSet
from tkjit.cache import PATHS, TEXT, Entry, Product, Recipe
from tkjit.cache.entry import read_dependencies, read_manifest
from tkjit.compile.flags import INCLUDE, RUNTIME, Flags
from tkjit.compile.targets import Target, cpu_target, gpu_target
from tkjit.errors import CompileError
from tkjit.loader import environment
from tkjit.loader.environment import Environment
from tkjit.loader.modules import ModulePlan
from tkjit.loader.plan import Plan
from tkjit.system.fork_safe import cached_property

BINDINGS, PRECOMPILED, DECLARATIONS, LIBRARIES = "bindings", "precompiled", "declarations", "libraries"
MEMBERS = "members"
_MODULE_FLAGS = ("-std=c++17", "-O1", "-g0", "-fPIC", "-shared", "-fvisibility=hidden")
_NOT_ACCESSIBLE = ("within this context", "is inaccessible")  # as g++ and nvcc's front end say it
# <cmath>'s Bessel functions and the like, 20 ms in each unit: g++ instantiates anew what inline functions use. A set of
# headers that uses them does not compile so, and gets them.
_WITHOUT_SPECIAL_FUNCTIONS = "#define _GLIBCXX_BITS_SPECFUN_H 1\n"
_UNWATCHED_S = 1.0  # most units are compiled by then; a watchdog costs a tenth of what they do
_HEADERS, _CALLS, _CALLS_OBJECT = "headers.h", "calls.cpp", "calls.so"


class BindingsPlan(Plan):
    """The module that owns the objects and makes the calls. It needs nothing of torch."""

    what = "the module of bindings (once per environment)"
    warmup = "python -m tkjit warmup"

    def __init__(self, env: Environment) -> None:
        self._env = env.without_torch

    @cached_property
    def warm_key(self) -> str:
        return self._env.warm_key(BINDINGS, ())

    def inputs(self) -> Iterable[str]:
        return [__file__, environment.__file__, *self._env.toolchain.searched_paths(cpu_target())]

    def render(self) -> Recipe:
        parts = {TEXT: f"#include <{BINDINGS}.cpp>\n", "flags": "\n".join(_MODULE_FLAGS)}
        return self._env.recipe(BINDINGS, BINDINGS, parts)

    def make(self, staging: Path) -> Product:
        from tkjit.compile import compiler

        python = self._env.toolchain.check_python_headers()
        directories = (RUNTIME, INCLUDE)
        failures = self._env.failure_directory(self.recipe)
        search = (*directories, *self._env.header_path)
        unit = compiler.Unit(self.what, f"{BINDINGS}.cpp", self.recipe.text, failures, search=search)

        def commands(source: Path, output: Path, depfile: Path) -> list[list[str]]:
            paths = [f"-I{directory}" for directory in directories]
            files = [f"-isystem{python}", "-MD", "-MF", str(depfile), str(source), "-o", str(output)]
            toolchain = self._env.toolchain
            return [[str(toolchain.cxx.path), *_MODULE_FLAGS, *toolchain.quick_linking, *paths, *files]]

        return compiler.compile_binary(unit, staging, f"{BINDINGS}.so", commands)

    def load(self, module: str, path: Path) -> ModuleType:
        return ModulePlan.import_module(BINDINGS, path)


class _HeaderSetPlan(Plan):
    """A plan of one set of headers."""

    arch: str

    def __init__(self, env: Environment, headers: HeaderSet) -> None:
        self._env = env.without_torch
        self._headers = headers
        self._flags = headers.compile_flags

    @property
    def warmup(self) -> str:
        return "python -m tkjit warmup --record FILE -- your program, and --from-file FILE"

    def inputs(self) -> Iterable[str]:
        files = [__file__, header_set.__file__, expressions.__file__, environment.__file__]
        return [*files, *self._env.toolchain.searched_paths(self._target)]

    def load(self, module: str, path: Path) -> Path:
        return path

    @property
    def _target(self) -> Target:
        return gpu_target(self._headers.arch) if self._headers.backend == "cuda" else cpu_target()

    def _recipe(self, text: str, **parts: str) -> Recipe:
        every = {TEXT: text, "flags": "\n".join(self._flags.compile), **parts}
        every[PATHS] = "\n".join(map(str, self._flags.include_dirs))
        own = {f"include-{number}": path for number, path in enumerate(self._headers.search_path)}
        return self._env.recipe(self.arch, self._headers.name, every, self._target, own)

    def _command(self, flags: Flags, source: Path, output: Path, depfile: Path, *more: str) -> list[str]:
        if not self._target.is_cpu:
            self._env.toolchain.check_arch(self._target)
            return [*self._env.toolchain.command(self._target, flags, source, output, depfile), *more]
        compiler = str(self._env.toolchain.cxx.path)
        files = ["-MD", "-MF", str(depfile), str(source), "-o", str(output)]
        return [compiler, *flags.compile, *flags.paths, *more, *files]


class PrecompiledHeaderPlan(_HeaderSetPlan):
    """The headers, as the compiler reads them at once."""

    arch = PRECOMPILED

    @cached_property
    def warm_key(self) -> str:
        return self._env.warm_key(f"{PRECOMPILED}-{self._headers.name}", self._headers)

    @property
    def what(self) -> str:
        return f"the headers of {self._headers.name} (once)"

    def render(self) -> Recipe:
        return self._recipe(self._headers.text)

    def make(self, staging: Path) -> Product:
        from tkjit.compile import compiler

        lean = self._target.is_cpu and not any(name.split("::")[0] == "std" for name in self._headers.namespaces)
        unit = compiler.Unit(
            self.what,
            _HEADERS,
            (_WITHOUT_SPECIAL_FUNCTIONS if lean else "") + self.recipe.text,
            self._env.failure_directory(self.recipe),
            search=(*self._flags.search, *self._env.header_path),
        )

        def commands(source: Path, output: Path, depfile: Path) -> list[list[str]]:
            line = self._command(self._flags, source, output, depfile)
            if self._target.is_cpu:
                return [[*line, "-x", "c++-header"]]
            # nvcc precompiles nothing: it says which files there are, and whether they compile
            listing = ["-M" if word == "-MD" else word for word in line[: line.index("-o")]]
            return [listing, [*(word for word in line if word not in ("-MD", "-MF", str(depfile))), "-E"]]

        name = f"{_HEADERS}.gch" if self._target.is_cpu else "headers.ii"
        try:
            return compiler.compile_binary(unit, staging, name, commands)
        except CompileError as error:
            if not lean:
                raise
            product = compiler.compile_binary(replace(unit, text=self.recipe.text), staging, name, commands)
            shutil.rmtree(error.log_path.parent, ignore_errors=True)  # of the attempt
            return product


class LibrariesPlan(_HeaderSetPlan):
    """The libraries as one shared object, so that what is static in them is there once for all compiled calls."""

    arch = LIBRARIES

    @cached_property
    def warm_key(self) -> str:
        return self._env.warm_key(f"{LIBRARIES}-{self._headers.name}", self._headers)

    @property
    def what(self) -> str:
        return f"the libraries of {self._headers.name} (once)"

    def render(self) -> Recipe:
        return self._recipe("", link="\n".join(self._headers.link_flags))

    def make(self, staging: Path) -> Product:
        from tkjit.compile import compiler

        names = tuple(f":{Path(name).name}" if "/" in name else name for name in self._headers.libraries)
        unit = compiler.Unit(
            self.what, "empty.cpp", "", self._env.failure_directory(self.recipe), libraries=names or ("",)
        )

        def commands(source: Path, output: Path, depfile: Path) -> list[list[str]]:
            # compiled calls find it by this name, wherever the cache lies
            options = ["-shared", f"-Wl,-t,-soname,{self.soname}"]
            files = ["-MD", "-MF", str(depfile), str(source), "-o", str(output)]
            return [[str(self._env.toolchain.cxx.path), "-fPIC", *options, *files, *self._headers.link_flags]]

        return compiler.compile_binary(unit, staging, "libraries.so", commands)

    @property
    def soname(self) -> str:
        return f"tkjit-{self._headers.name}-{self.recipe.build_key[:16]}.so"

    def load(self, module: str, path: Path) -> Path:
        ctypes.CDLL(str(path))  # and never closed
        return path


class DeclarationsPlan(_HeaderSetPlan):
    """The names that the headers declare. Its key stands for the headers' contents.

    Parameters
    ----------
    precompiled : callable
        Returns the entry of the same headers' precompiled one, whose compiler has listed every file.
    """

    arch = DECLARATIONS

    def __init__(self, env: Environment, headers: HeaderSet, precompiled: Callable[[], Entry]) -> None:
        super().__init__(env, headers)
        self._precompiled = precompiled

    @cached_property
    def warm_key(self) -> str:
        return self._env.warm_key(f"{DECLARATIONS}-{self._headers.name}", self._headers)

    @property
    def what(self) -> str:
        return f"the declarations of {self._headers.name} (once)"

    def inputs(self) -> Iterable[str]:
        from tkjit.bindings import read_declarations

        return [*super().inputs(), read_declarations.__file__]

    def render(self) -> Recipe:
        return self._recipe(self._headers.text, namespaces="\n".join(self._headers.namespaces))

    def make(self, staging: Path) -> Product:
        from tkjit.bindings import read_declarations
        from tkjit.importer import clang
        from tkjit.system import files

        entry = self._precompiled()
        recipe = self.recipe
        recorded = read_dependencies(entry.directory, read_manifest(entry.directory))
        dependencies = tuple(Path(recipe.resolve(name)) for name in recorded["files"])
        search = tuple(Path(recipe.resolve(name)) for name in recorded["search"])
        toolkit = [] if self._target.is_cpu else [self._env.toolchain.cuda_root / "include"]
        found = read_declarations.read_declarations(self._headers, toolkit)
        files.write(staging / f"{DECLARATIONS}.json", json.dumps(found, separators=(",", ":")))
        readers = (Path(read_declarations.__file__), Path(clang.__file__))
        return Product(f"{DECLARATIONS}.json", (*dependencies, *readers), {"what": self.what}, search)


class MembersPlan(_HeaderSetPlan):
    """The names that an object's class has, those of its bases too, as an editor completes them.

    Parameters
    ----------
    digest : str
        What stands for the headers' contents.
    """

    arch = MEMBERS

    def __init__(self, env: Environment, headers: HeaderSet, digest: str, type_text: str) -> None:
        super().__init__(env, headers)
        self._digest = digest
        self._type_text = type_text

    @cached_property
    def warm_key(self) -> str:
        key = hashlib.sha256(repr((self._digest, self._type_text)).encode()).hexdigest()[:16]
        return self._env.warm_key(f"{MEMBERS}-{self._headers.name}-{key}", self._headers)

    @property
    def what(self) -> str:
        return f"the members of {self._type_text}"

    def render(self) -> Recipe:
        return self._recipe(self._type_text, headers=self._digest)

    def make(self, staging: Path) -> Product:
        from tkjit.bindings import read_declarations
        from tkjit.importer import clang
        from tkjit.system import files

        toolkit = [] if self._target.is_cpu else [self._env.toolchain.cuda_root / "include"]
        found = read_declarations.read_members(self._headers, self._type_text, toolkit)
        files.write(staging / f"{MEMBERS}.json", json.dumps(found, separators=(",", ":")))
        readers = (Path(read_declarations.__file__), Path(clang.__file__))  # the headers are in the digest
        return Product(f"{MEMBERS}.json", readers, {"what": self.what})


class Prepared(Protocol):
    """What units of calls are compiled with; see ``PreparedHeaders``."""

    headers: HeaderSet

    @property
    def env(self) -> Environment: ...
    @property
    def digest(self) -> str: ...
    @property
    def libraries(self) -> Path | None: ...
    def precompiled(self) -> Entry: ...


class _UnitPlan(_HeaderSetPlan):
    """Compiled calls, in a shared object of their own or of others.

    Parameters
    ----------
    calls : sequence of Expression
        What the entry is for. They stand next to each other in the unit.
    shared : tuple of Path and int, optional
        The shared object in which they have been compiled, and the position of the first.
    """

    def __init__(self, prepared: Prepared, calls: Sequence[Expression], shared: tuple[Path, int] | None = None) -> None:
        super().__init__(prepared.env, prepared.headers)
        self._prepared = prepared
        self._calls = calls
        self._shared = shared

    @cached_property
    def warm_key(self) -> str:
        calls = [(call.form, call.given) for call in self._calls]
        key = hashlib.sha256(repr((self._prepared.digest, calls)).encode()).hexdigest()[:16]
        return self._env.warm_key(f"{self.arch}-{self._headers.name}-{key}", self._headers)

    def render(self) -> Recipe:
        # whether a call may be missing is a matter of who asks
        text = render_unit([replace(call, is_optional=False) for call in self._calls])
        return self._recipe(text, headers=self._prepared.digest, link=" ".join(self._link_flags))

    @property
    def _link_flags(self) -> list[str]:
        option = "-Wl,--no-as-needed" if self._target.is_cpu else "-Xlinker=--no-as-needed"
        return [option] if self._prepared.libraries else []

    @property
    def watch_after_s(self) -> float | None:
        return _UNWATCHED_S if self._shared is None else None

    @property
    def _quick_linking(self) -> list[str]:
        chosen = any("-fuse-ld" in flag for flag in self._headers.flags)
        return self._env.toolchain.quick_linking if self._target.is_cpu and not chosen else []

    def make(self, staging: Path) -> Product:
        from tkjit.system import files

        if self._shared is not None:
            path, position = self._shared
            with suppress(OSError):  # it has been removed, or cannot be linked to
                os.link(path, staging / _CALLS_OBJECT)
                files.write(staging / _CALLS, self.recipe.text)
                return Product(_CALLS_OBJECT, (), {"what": self.what, "module": str(position)})
        return self._compile(staging, self._calls)

    def _text(self, calls: Sequence[Expression]) -> str:
        return render_unit(calls)

    def _compile(self, staging: Path, calls: Sequence[Expression]) -> Product:
        from tkjit.compile import compiler

        headers = self._prepared.precompiled().directory / _HEADERS
        libraries = self._prepared.libraries
        failures = self._env.failure_directory(self.recipe)
        unit = compiler.Unit(self.what, _CALLS, self._text(calls), failures, libraries=(), is_measured=False)

        def commands(source: Path, output: Path, depfile: Path) -> list[list[str]]:
            line = self._command(self._flags, source, output, depfile, "-shared", "-include", str(headers))
            linking = [*self._quick_linking, *self._link_flags, *([str(libraries)] if libraries else [])]
            return [[*line, *linking]]

        product = compiler.compile_binary(unit, staging, _CALLS_OBJECT, commands)
        # the headers are in the digest
        return Product(product.shared_object, (), {**product.facts, "module": "0"})


class CallsPlan(_UnitPlan):
    """A compiled call.

    Parameters
    ----------
    together : sequence of Expression, optional
        With what it is compiled: itself, and what follows it.
    optional : int
        How many of those, at the end, are left out where they do not compile.
    origins : mapping of str to Expression, optional
        What has returned objects of a type: C++ may have such a type, and not name it.
    """

    arch = "calls"

    def __init__(
        self,
        prepared: Prepared,
        call: Expression,
        together: Sequence[Expression] = (),
        optional: int = 0,
        shared: tuple[Path, int] | None = None,
        origins: Mapping[str, Expression] | None = None,
    ) -> None:
        super().__init__(prepared, [call], shared)
        self._origins = origins or {}
        self._hidden: dict[str, Expression] = {}
        self._together = together or [call]
        self._optional = optional
        self.compiled: Sequence[Expression] | None = None  # by this plan

    @property
    def what(self) -> str:
        return str(self._calls[0])

    def _compile(self, staging: Path, calls: Sequence[Expression]) -> Product:
        needed = len(self._together) - self._optional
        given = {one.type for call in self._together for one in call.given}
        self._hidden = {name: call for name, call in self._origins.items() if _is_unnameable(name)}
        try:
            return self._compile_most(staging, needed)
        except CompileError as error:
            if not any(sign in error.log for sign in _NOT_ACCESSIBLE) or not given & self._origins.keys():
                raise
            self._hidden = dict(self._origins)
            return self._compile_most(staging, needed)

    def _compile_most(self, staging: Path, needed: int) -> Product:
        try:
            product = super()._compile(staging, self._together)
            self.compiled = self._together
        except CompileError:
            if not self._optional:
                raise
            product = super()._compile(staging, self._together[:needed])
            self.compiled = self._together[:needed]
        return product

    def _text(self, calls: Sequence[Expression]) -> str:
        return render_unit(calls, self._hidden)


def _is_unnameable(type_text: str) -> bool:
    # the last is of a generic closure's name, which libstdc++ does not demangle
    return any(sign in type_text for sign in ("{lambda", "{unnamed", "(anonymous", "EUl"))


class ClassPlan(_UnitPlan):
    """Calls that objects of a class probably have; where the body of one does not compile, none of them."""

    arch = "classes"

    def __init__(
        self,
        prepared: Prepared,
        type_text: str,
        calls: Sequence[Expression],
        shared: tuple[Path, int] | None = None,
    ) -> None:
        super().__init__(prepared, calls, shared)
        self._type_text = type_text

    @property
    def what(self) -> str:
        return f"the class {self._type_text.removeprefix('::')}"
