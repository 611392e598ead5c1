"""The cache entries for a set of headers: its precompiled header, libraries, declarations and class members."""

from __future__ import annotations

import ctypes
import hashlib
import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from tkjit.bindings import header_set
from tkjit.bindings.header_set import HeaderSet
from tkjit.cache import PATHS, TEXT, Entry, Product, Recipe
from tkjit.cache.entry import read_dependencies, read_manifest
from tkjit.compile.flags import Flags
from tkjit.compile.targets import Target, cpu_target, gpu_target
from tkjit.errors import CompileError
from tkjit.loader import environment
from tkjit.loader.environment import Environment
from tkjit.loader.plan import Plan
from tkjit.system.fork_safe import cached_property

HEADERS = "headers.h"
PRECOMPILED, DECLARATIONS, MEMBERS, LIBRARIES = "precompiled", "declarations", "members", "libraries"
# Leaves out the special functions of <cmath> (Bessel functions and the like). They cost 20 ms in each unit, because g++
# instantiates again everything that inline functions use. If headers do not compile without the special functions,
# tkjit compiles them again with these functions.
_WITHOUT_SPECIAL_FUNCTIONS = "#define _GLIBCXX_BITS_SPECFUN_H 1\n"


class HeaderSetPlan(Plan):
    """The base class of all plans for a set of headers."""

    arch: str

    def __init__(self, env: Environment, headers: HeaderSet) -> None:
        self._env = env.without_torch
        self._headers = headers
        self._flags = headers.compile_flags

    @property
    def warmup(self) -> str:
        return "python -m tkjit warmup --record FILE -- PROGRAM, then python -m tkjit warmup --from-file FILE"

    def inputs(self) -> Iterable[str]:
        files = [__file__, header_set.__file__, environment.__file__]
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


class PrecompiledHeaderPlan(HeaderSetPlan):
    """The precompiled header."""

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
            HEADERS,
            (_WITHOUT_SPECIAL_FUNCTIONS if lean else "") + self.recipe.text,
            self._env.failure_directory(self.recipe),
            search=(*self._flags.search, *self._env.header_path),
        )

        def commands(source: Path, output: Path, depfile: Path) -> list[list[str]]:
            line = self._command(self._flags, source, output, depfile)
            if self._target.is_cpu:
                return [[*line, "-x", "c++-header"]]
            # nvcc cannot precompile a header, so it only lists the included files and preprocesses them
            listing = ["-M" if word == "-MD" else word for word in line[: line.index("-o")]]
            return [listing, [*(word for word in line if word not in ("-MD", "-MF", str(depfile))), "-E"]]

        name = f"{HEADERS}.gch" if self._target.is_cpu else "headers.ii"
        try:
            return compiler.compile_binary(unit, staging, name, commands)
        except CompileError as error:
            if not lean:
                raise
            product = compiler.compile_binary(replace(unit, text=self.recipe.text), staging, name, commands)
            shutil.rmtree(error.log_path.parent, ignore_errors=True)  # the second attempt succeeded, so drop the log
            return product


class LibrariesPlan(HeaderSetPlan):
    """All libraries linked into one shared object, so that all compiled calls share the libraries' static variables."""

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
            # compiled calls find the shared object by this name, wherever the cache is
            options = ["-shared", f"-Wl,-t,-soname,{self.soname}"]
            files = ["-MD", "-MF", str(depfile), str(source), "-o", str(output)]
            return [[str(self._env.toolchain.cxx.path), "-fPIC", *options, *files, *self._headers.link_flags]]

        return compiler.compile_binary(unit, staging, "libraries.so", commands)

    @property
    def soname(self) -> str:
        return f"tkjit-{self._headers.name}-{self.recipe.build_key[:16]}.so"

    def load(self, module: str, path: Path) -> Path:
        ctypes.CDLL(str(path))  # never closed, because compiled calls need it
        return path


class DeclarationsPlan(HeaderSetPlan):
    """The names that the headers declare. The keys of this entry serve as a digest of the headers' contents.

    Parameters
    ----------
    precompiled : callable
        Returns the entry of the precompiled header, which lists every file that the compiler has read.
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


class MembersPlan(HeaderSetPlan):
    """The names of a class's members, including inherited ones, as an editor would complete them.

    Parameters
    ----------
    digest : str
        The digest of the headers' contents.
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
        readers = (Path(read_declarations.__file__), Path(clang.__file__))  # no headers, because the digest covers them
        return Product(f"{MEMBERS}.json", readers, {"what": self.what})
