"""Headers that are compiled once: to read them is half of what compiling a glue or a small launcher costs.

A compiler whose flags or macros do not fit such a file reads the header itself. So it only saves time.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tkjit.cache import PATHS, TEXT, Entry, Product, Recipe
from tkjit.cache.entry import read_dependencies, shadows
from tkjit.compile import flags
from tkjit.compile.flags import Flags
from tkjit.compile.targets import NEWEST_MODEL, Target
from tkjit.errors import CompileError
from tkjit.loader import environment
from tkjit.loader.environment import Environment
from tkjit.loader.glue_flags import split
from tkjit.loader.plan import Plan
from tkjit.spec import Compilation
from tkjit.system.fork_safe import cached_property

if TYPE_CHECKING:
    from tkjit.compile.compiler import Unit

HEADERS = "common_headers"  # their directory in the cache
GLUE, LAUNCHER, HOST_HALF = "glue", "launcher", "host_half"


class PrecompiledHeaderPlan(Plan):
    """A precompiled header.

    Parameters
    ----------
    name : str
        ``"glue"``: what includes it.
    text : str
        What it holds.
    words : sequence of str
        The flags of what includes it.
    """

    def __init__(self, env: Environment, name: str, text: str, words: Iterable[str]) -> None:
        self._env = env
        self._name = name
        self._text = text
        self._words = tuple(words)
        self.file = f"tkjit_{name}.h"

    warmup = "python -m tkjit warmup"

    @property
    def what(self) -> str:
        return f"the header of each {self._name.replace('_', ' ')} (once per environment)"

    @cached_property
    def warm_key(self) -> str:
        return self._env.warm_key(f"{HEADERS}-{self._name}", self._words)

    def inputs(self) -> Iterable[str]:
        return [__file__, environment.__file__, *self._env.toolchain.searched_paths()]

    def render(self) -> Recipe:
        given, directories = split(self._words)
        parts = {TEXT: self._text, "flags": "\n".join(given), PATHS: "\n".join(directories)}
        return self._env.recipe(HEADERS, self._name, parts)

    def make(self, staging: Path) -> Product:
        from tkjit.compile import compiler

        env = self._env
        unit = compiler.Unit(
            self.what,
            self.file,
            self.recipe.text,
            env.failure_directory(self.recipe),
            search=(*map(Path, split(self._words)[1]), *env.header_path),
        )
        # -MMD: what identifies torch stands for its headers in the glue
        named = "-MMD" if self._name == GLUE else "-MD"

        def commands(source: Path, output: Path, depfile: Path) -> list[compiler.Step]:
            made = [named, "-MF", str(depfile), "-x", "c++-header", str(source), "-o", str(output)]
            return [[str(env.toolchain.cxx.path), *self._words, *made]]

        product = compiler.compile_binary(unit, staging, f"{self.file}.gch", commands)
        # of 10 to 30 MB, and sooner made than fetched
        return replace(product, facts={**product.facts, "stays_here": True})

    def load(self, module: str, path: Path) -> Path:
        return path

    def compile_with(self, make: Callable[[list[str]], Product], unit: Unit, search: Iterable[Path] = ()) -> Product:
        """Compile what begins with the header, by way of it where that is possible.

        Parameters
        ----------
        make : callable
            Compiles, with these flags in front of all that include something.
        search : iterable of Path
            Where the unit's headers are looked for, and the header's own are not.
        """
        entry = self._env.precompiled(self)
        if entry is None or self._is_hidden(entry, search):
            return make([])
        try:
            product = make(["-include", str(entry.directory / self.file)])
        except CompileError:
            if (entry.directory / self.file).is_file():
                raise
            shutil.rmtree(unit.failure_directory, ignore_errors=True)  # somebody has removed the header meanwhile
            return make([])
        own = (path for path in product.dependencies if not path.is_relative_to(entry.directory))
        return replace(product, dependencies=tuple(sorted({*own, *self._files(entry)})))

    def _files(self, entry: Entry) -> list[Path]:
        """What the header has read."""
        recorded = read_dependencies(entry.directory, entry.manifest)["files"]
        return [Path(self.recipe.resolve(name)) for name in recorded]

    def _is_hidden(self, entry: Entry, search: Iterable[Path]) -> bool:
        """Whether a file lies where it would be read in the place of one that the header has read."""
        return bool(shadows(map(str, search), [str(path) for path in self._files(entry)]))


def of_glue(env: Environment, words: Iterable[str]) -> PrecompiledHeaderPlan:
    """The header of all glue, by the flags with which a glue is compiled."""
    return PrecompiledHeaderPlan(env, GLUE, "#include <glue.h>\n", words)


def of_launchers(env: Environment, target: Target) -> PrecompiledHeaderPlan:
    """The header of launchers for a CPU that are compiled as most are: by the standard and the model of plain specs."""
    return PrecompiledHeaderPlan(env, LAUNCHER, _OF_LAUNCHERS, (*_plain_flags(env, target), *_PATHS))


def for_launcher(env: Environment, target: Target, launcher: Flags) -> PrecompiledHeaderPlan | None:
    """That header, if a launcher with these flags may begin with it; of macros the compiler says it by itself."""
    plain = _plain_flags(env, target)
    may_begin = launcher.compile[: len(plain)] == plain and "-include" not in launcher.compile
    return of_launchers(env, target) if may_begin else None


def of_host_halves(env: Environment) -> PrecompiledHeaderPlan:
    """The header of the host code of launchers whose device code NVRTC compiles."""
    return PrecompiledHeaderPlan(env, HOST_HALF, _OF_LAUNCHERS, flags.host_half_flags(Compilation.std))


_OF_LAUNCHERS = "#include <tkjit/launcher.h>\n"
_PATHS = tuple(f"-I{directory}" for directory in (flags.INCLUDE, flags.SIMULATOR))


def _plain_flags(env: Environment, target: Target) -> tuple[str, ...]:
    return tuple(flags.cpu_flags(Compilation.std, NEWEST_MODEL, target, checks_bounds=env.checks_bounds))
