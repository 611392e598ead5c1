"""What is compiled and kept for bindings: a set of headers, what it declares, and the calls that were made."""

from __future__ import annotations

import ctypes
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tkjit.bindings import expressions, header_set
from tkjit.bindings.expressions import Expression, render_unit
from tkjit.bindings.header_set import HeaderSet
from tkjit.cache import PATHS, TEXT, Entry, Product, Recipe
from tkjit.cache.entry import read_dependencies, read_manifest
from tkjit.compile.flags import Flags
from tkjit.compile.targets import Target, cpu_target
from tkjit.errors import CompileError
from tkjit.loader import environment
from tkjit.loader.environment import Environment
from tkjit.loader.modules import SharedModulePlan
from tkjit.loader.plan import Plan
from tkjit.system.fork_safe import cached_property

BINDINGS, PRECOMPILED, DECLARATIONS, LIBRARIES = "bindings", "precompiled", "declarations", "libraries"
_HEADERS, _CALLS = "headers.h", "calls.cpp"


class BindingsPlan(SharedModulePlan):
    """The module that owns the objects and makes the calls."""

    arch = BINDINGS
    cflags = ("-O2", "-g0", "-fvisibility=hidden")
    what = "the module of bindings (once per environment)"


class _HeaderSetPlan(Plan):
    """A plan of one set of headers."""

    arch: str

    def __init__(self, env: Environment, headers: HeaderSet) -> None:
        self._env = env
        self._headers = headers
        self._flags = headers.compile_flags

    @property
    def warmup(self) -> str:
        return "run the program once where TKJIT_JIT is not 0"

    def inputs(self) -> Iterable[str]:
        files = [__file__, header_set.__file__, expressions.__file__, environment.__file__]
        return [*files, *self._env.toolchain.searched_paths(self._target)]

    def load(self, module: str, path: Path) -> Path:
        return path

    @property
    def _target(self) -> Target:
        return cpu_target()

    def _recipe(self, text: str, **parts: str) -> Recipe:
        every = {TEXT: text, "flags": "\n".join(self._flags.compile), **parts}
        every[PATHS] = "\n".join(map(str, self._flags.include_dirs))
        own = {f"include-{number}": path for number, path in enumerate(self._headers.include_dirs)}
        return self._env.recipe(self.arch, self._headers.name, every, None, own)

    def _command(self, flags: Flags, source: Path, output: Path, depfile: Path, *more: str) -> list[str]:
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

        unit = compiler.Unit(
            self.what,
            _HEADERS,
            self.recipe.text,
            self._env.failure_directory(self.recipe),
            search=(*self._flags.search, *self._env.header_path),
        )

        def commands(source: Path, output: Path, depfile: Path) -> list[list[str]]:
            return [self._command(self._flags, source, output, depfile, "-x", "c++-header")]

        return compiler.compile_binary(unit, staging, f"{_HEADERS}.gch", commands)


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
            return [[*self._command(self._flags, source, output, depfile, *options), *self._headers.link_flags]]

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
        from tkjit.bindings.read_declarations import read_declarations
        from tkjit.system import files

        entry = self._precompiled()
        recipe = self.recipe
        recorded = read_dependencies(entry.directory, read_manifest(entry.directory))
        dependencies = tuple(Path(recipe.resolve(name)) for name in recorded["files"])
        search = tuple(Path(recipe.resolve(name)) for name in recorded["search"])
        found = read_declarations(self._headers)
        files.write(staging / f"{DECLARATIONS}.json", json.dumps(found, separators=(",", ":")))
        return Product(f"{DECLARATIONS}.json", dependencies, {"what": self.what}, search)


class CallsPlan(_HeaderSetPlan):
    """Compiled calls.

    Parameters
    ----------
    digest : str
        Of the contents of the headers and libraries.
    libraries : Path or None
        The shared object of the libraries, which has been loaded.
    """

    arch = "calls"

    def __init__(
        self,
        env: Environment,
        headers: HeaderSet,
        digest: str,
        calls: Sequence[Expression],
        precompiled: Callable[[], Entry],
        libraries: Path | None,
    ) -> None:
        super().__init__(env, headers)
        self._digest = digest
        self._calls = calls
        self._precompiled = precompiled
        self._libraries = libraries

    @cached_property
    def warm_key(self) -> str:
        key = hashlib.sha256(repr((self._digest, self._calls)).encode()).hexdigest()[:16]
        return self._env.warm_key(f"call-{self._headers.name}-{key}", self._headers)

    @property
    def what(self) -> str:
        return str(self._calls[0])

    def render(self) -> Recipe:
        return self._recipe(render_unit(self._calls), headers=self._digest, link=" ".join(self._link_flags))

    @property
    def _link_flags(self) -> list[str]:
        return ["-Wl,--no-as-needed"] if self._libraries else []

    def make(self, staging: Path) -> Product:
        return self._compile(staging, self.recipe.text)

    def _compile(self, staging: Path, text: str) -> Product:
        from tkjit.compile import compiler

        headers = self._precompiled().directory / _HEADERS
        unit = compiler.Unit(self.what, _CALLS, text, self._env.failure_directory(self.recipe), libraries=())

        def commands(source: Path, output: Path, depfile: Path) -> list[list[str]]:
            line = self._command(self._flags, source, output, depfile, "-shared", "-include", str(headers))
            return [[*line, *self._link_flags, *([str(self._libraries)] if self._libraries else [])]]

        product = compiler.compile_binary(unit, staging, "calls.so", commands)
        # the headers are in the digest
        return Product(product.shared_object, (), product.facts)


class ClassPlan(CallsPlan):
    """Calls that a class may have; where the body of one does not compile, none of them."""

    arch = "classes"

    def __init__(
        self,
        env: Environment,
        headers: HeaderSet,
        digest: str,
        type_text: str,
        calls: Sequence[Expression],
        precompiled: Callable[[], Entry],
        libraries: Path | None,
    ) -> None:
        super().__init__(env, headers, digest, calls, precompiled, libraries)
        self._type_text = type_text

    @property
    def what(self) -> str:
        return f"the class {self._type_text.removeprefix('::')}"

    def make(self, staging: Path) -> Product:
        for count in (len(self._calls), 1):
            try:
                return self._compile(staging, render_unit(self._calls[:count]))
            except CompileError:
                if count == 1:
                    raise
        raise AssertionError
