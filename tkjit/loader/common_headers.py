"""Precompiles headers, because parsing them is half of the time that compiling glue or a small launcher takes.

If a compiler's flags or macros do not match a precompiled header, the compiler reads the original header instead. So a
precompiled header never changes the result; it only saves time.
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
from tkjit.compile.targets import DEFAULT_MODEL, Target
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
GLUE, LAUNCHER = "glue", "launcher"
_OF_LAUNCHERS = "#include <tkjit/launcher.h>\n"
_OF_TRANSLATED = "#include <ptx/ptx.h>\n" + _OF_LAUNCHERS
# Matches the errors of a compiler that cannot use a precompiled header because the file is truncated, or because the
# memory addresses that it needs are taken.
_UNUSABLE = re.compile(r"\bPCH\b|precompiled header|\.gch\b|internal compiler error")


class CommonHeaderPlan(Plan):
    """A precompiled header.

    Parameters
    ----------
    name : str
        The kind of code that includes the header: ``"glue"``.
    what : str
        The header's name in messages.
    text : str
        The text of the header.
    words : sequence of str
        The compiler flags of the code that includes the header.
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
        # A precompiled header only works while the headers are where the compiler read them, and building it is faster
        # than fetching 10 to 30 MB.
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
        # -MMD leaves system headers out of the dependencies. For glue these include torch's headers; the files that
        # identify torch are recorded instead.
        named = "-MMD" if self._name == GLUE else "-MD"

        def commands(source: Path, output: Path, depfile: Path) -> list[compiler.Step]:
            options = [named, "-MF", str(depfile), "-x", "c++-header", str(source), "-o", str(output)]
            return [[str(env.toolchain.cxx.path), *self._words, *options]]

        return compiler.compile_binary(unit, staging, f"{self.file}.gch", commands)

    def load(self, module: str, path: Path) -> Path:
        return path

    def compile_with(self, make: Callable[[list[str]], Product], unit: Unit, search: Iterable[Path] = ()) -> Product:
        """Compile a unit whose first include is this header, using the precompiled header if possible.

        Parameters
        ----------
        make : callable
            Compiles the unit. Its argument is a list of flags, which must come before every other ``-include``.
        search : iterable of Path
            The directories that the compiler searches for the unit's headers, but did not search when the header was
            precompiled.
        """
        entry = self._env.common_header(self)
        read = self._read(entry) if entry is not None else None
        # if a file in these directories has the name of a header that was precompiled, the compiler must read that file
        if entry is None or read is None or shadows(map(str, search), read):
            return make([])
        header = entry.directory / self.file
        try:
            product = make(["-include", str(header)])
        except CompileError as error:
            if header.is_file() and not _UNUSABLE.search(error.log):
                raise
            shutil.rmtree(unit.failure_directory, ignore_errors=True)
            return make([])
        own_files = {path for path in product.dependencies if not path.is_relative_to(entry.directory)}
        return replace(product, dependencies=tuple(sorted(own_files | set(map(Path, read)))))

    def _read(self, entry: Entry) -> list[str] | None:
        """Return the files that the compiler read for the header, or None if the entry was damaged or removed."""
        try:
            recorded = read_dependencies(entry.directory, entry.manifest)["files"]
        except (DamagedError, OSError):
            return None
        return [self.recipe.resolve(name) for name in recorded]


def of_glue(env: Environment, words: Iterable[str]) -> CommonHeaderPlan:
    """Return the plan of the header that all glue includes, for the flags with which glue is compiled."""
    return CommonHeaderPlan(env, GLUE, "the header of glue", "#include <glue.h>\n", words)


def of_launchers(env: Environment, target: Target, mode: str = "", *, is_translated: bool = False) -> CommonHeaderPlan:
    """Return the plan of the header for most CPU launchers: those with the default C++ standard and model.

    Parameters
    ----------
    mode : str
        The mode of the checker that the header is for (``"race"``), or an empty text for launchers themselves.
    is_translated : bool
        Whether the header is for sources that are preprocessed and adapted before they are compiled.
    """
    words: Iterable[str] = _plain_flags(target, mode)
    if mode:
        plain = Flags(tuple(words))
        words = flags.checker_flags(plain, mode, is_clang="clang" in env.toolchain.cxx.version).compile
    paths = [f"-I{directory}" for directory in (flags.INCLUDE, flags.SIMULATOR)]
    name = "-".join([LAUNCHER, *([mode] if mode else []), *(["translated"] if is_translated else [])])
    users = f"{mode} checkers" if mode else "launchers for the CPU"
    what = f"the header of {users}{' with inline PTX' if is_translated else ''}"
    text = _OF_TRANSLATED if is_translated else _OF_LAUNCHERS
    translated = flags.TRANSLATED if is_translated else ()
    return CommonHeaderPlan(env, name, what, text, [*words, *translated, *paths])


def for_launcher(
    env: Environment, target: Target, launcher: Flags, mode: str = "", *, is_translated: bool = False
) -> CommonHeaderPlan | None:
    """Like ``of_launchers``, but return None if a launcher's flags do not match. The compiler itself checks macros.

    ``launcher`` has the flags of the launcher itself, before ``checker_flags`` adds those of a checker.
    """
    plain = _plain_flags(target, mode)
    may_begin = launcher.compile[: len(plain)] == plain and "-include" not in launcher.compile
    return of_launchers(env, target, mode, is_translated=is_translated) if may_begin else None


def _plain_flags(target: Target, mode: str) -> tuple[str, ...]:
    return tuple(flags.cpu_flags(Compilation.std, DEFAULT_MODEL, target, checks_bounds=not mode))
