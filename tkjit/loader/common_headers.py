"""Headers that are compiled once: to read them is half of what compiling a glue or a small launcher costs.

A compiler whose flags or macros do not fit such a file reads the header itself. So it only saves time.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tkjit.cache import PATHS, TEXT, Entry, Product, Recipe
from tkjit.cache.checked_json import DamagedError
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
_OF_LAUNCHERS = "#include <tkjit/launcher.h>\n"
# what a compiler says of a precompiled file that it cannot use after all: one that was cut, or addresses that are taken
_UNFIT = re.compile(r"\bPCH\b|precompiled header|\.gch\b|internal compiler error")


class CommonHeaderPlan(Plan):
    """A precompiled header.

    Parameters
    ----------
    name : str
        ``"glue"``: what includes it.
    what : str
        The header's name for a person.
    text : str
        What it holds.
    words : sequence of str
        The flags of what includes it.
    """

    def __init__(self, env: Environment, name: str, what: str, text: str, words: Iterable[str]) -> None:
        self._env = env
        self._name = name
        self._what = what
        self._text = text
        self._words = tuple(words)
        self.file = f"tkjit_{name}.h"

    warmup = "python -m tkjit warmup"

    @property
    def what(self) -> str:
        return f"{self._what} (once per environment)"

    @cached_property
    def warm_key(self) -> str:
        return self._env.warm_key(f"{HEADERS}-{self._name}", self._words)

    def inputs(self) -> Iterable[str]:
        return [__file__, environment.__file__, *self._env.toolchain.searched_paths()]

    def render(self) -> Recipe:
        given, directories = split(self._words)
        parts = {TEXT: self._text, "flags": "\n".join(given), PATHS: "\n".join(directories)}
        # a compiler takes it from where it has read what is in it, and sooner makes than fetches 10 to 30 MB
        return self._env.recipe(HEADERS, self._name, parts, stays_here=True)

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

        return compiler.compile_binary(unit, staging, f"{self.file}.gch", commands)

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
        entry = self._env.common_header(self)
        read = self._read(entry) if entry is not None else None
        # a file may lie where it would be read in the place of one that the header has read
        if entry is None or read is None or shadows(map(str, search), read):
            return make([])
        header = entry.directory / self.file
        try:
            product = make(["-include", str(header)])
        except CompileError as error:
            if header.is_file() and not _UNFIT.search(error.log):
                raise
            shutil.rmtree(unit.failure_directory, ignore_errors=True)
            return make([])
        own = {path for path in product.dependencies if not path.is_relative_to(entry.directory)}
        return replace(product, dependencies=tuple(sorted(own | set(map(Path, read)))))

    def _read(self, entry: Entry) -> list[str] | None:
        """What the header has read; None if somebody has damaged or removed it meanwhile."""
        try:
            recorded = read_dependencies(entry.directory, entry.manifest)["files"]
        except (DamagedError, OSError):
            return None
        return [self.recipe.resolve(name) for name in recorded]


def of_glue(env: Environment, words: Iterable[str]) -> CommonHeaderPlan:
    """The header of all glue, by the flags with which a glue is compiled."""
    return CommonHeaderPlan(env, GLUE, "the header of glue", "#include <glue.h>\n", words)


def of_launchers(env: Environment, target: Target) -> CommonHeaderPlan:
    """The header of launchers for a CPU that are compiled as most are: by the standard and the model of plain specs."""
    what = "the header of launchers for the CPU"
    paths = [f"-I{directory}" for directory in (flags.INCLUDE, flags.SIMULATOR)]
    return CommonHeaderPlan(env, LAUNCHER, what, _OF_LAUNCHERS, [*_plain_flags(env, target), *paths])


def for_launcher(env: Environment, target: Target, launcher: Flags) -> CommonHeaderPlan | None:
    """That header, if a launcher with these flags may begin with it; of macros the compiler says it by itself."""
    plain = _plain_flags(env, target)
    may_begin = launcher.compile[: len(plain)] == plain and "-include" not in launcher.compile
    return of_launchers(env, target) if may_begin else None


def of_host_halves(env: Environment) -> CommonHeaderPlan:
    """The header of the host code of launchers whose device code NVRTC compiles."""
    what = "the header of launchers for GPUs"
    return CommonHeaderPlan(env, HOST_HALF, what, _OF_LAUNCHERS, flags.host_half_flags(Compilation.std))


def _plain_flags(env: Environment, target: Target) -> tuple[str, ...]:
    return tuple(flags.cpu_flags(Compilation.std, NEWEST_MODEL, target, checks_bounds=env.checks_bounds))
