"""The plan of a program: CUDA sources with a ``main`` that are compiled for the CPU and linked with the simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tkjit.cache import PATHS, TEXT, Product, Recipe
from tkjit.compile.flags import CUDA_LIBRARIES, INCLUDE, SIMULATOR, Flags, common_flags, simulated_flags
from tkjit.compile.includes import included_anywhere
from tkjit.compile.targets import Target
from tkjit.errors import CompileError, TkjitError, ToolchainError
from tkjit.headers import how_to_find_curand
from tkjit.loader import translation
from tkjit.loader.environment import Environment, rendering_files
from tkjit.loader.plan import Plan
from tkjit.loader.simulator import simulator_flags_of, with_simulator_sources
from tkjit.system import files
from tkjit.system.fork_safe import cached_property

if TYPE_CHECKING:
    from tkjit.compile.compiler import Step

PROGRAM = "program"


class ProgramPlan(Plan):
    """Builds a program from one or more sources.

    Parameters
    ----------
    sources : sequence of Path
        Each source is compiled separately and finds quoted includes in its own directory. One source has the ``main``.
    flags : sequence of str
        Flags for the preprocessor (``-DN=4``) and the linker (``-llapack``), and ``-fopenmp``.
    include_dirs : sequence of Path
        Directories to search for headers, in addition to the directories of the sources.
    """

    def __init__(
        self,
        env: Environment,
        sources: Sequence[Path],
        target: Target,
        flags: Sequence[str],
        include_dirs: Sequence[Path],
        std: str,
    ) -> None:
        self._env, self._sources, self._target = env, tuple(sources), target
        openmp = [flag for flag in flags if flag == "-fopenmp"]
        # -O3, as nvcc does by default: a program is compiled once, and then runs for long
        compile_flags = [f"-std={std}", *openmp, *simulated_flags(target, flags), "-O3"]
        linker = (*openmp, *common_flags(flags)[1])
        self._own_dirs = tuple(dict.fromkeys((*(path.parent for path in sources), *include_dirs)))
        directories = (INCLUDE, SIMULATOR, *self._own_dirs, CUDA_LIBRARIES)
        self._flags = Flags(tuple(compile_flags), tuple(f"-I{directory}" for directory in directories), linker)

    @cached_property
    def warm_key(self) -> str:
        return self._env.warm_key(PROGRAM, (self._sources, self._flags))

    @property
    def what(self) -> str:
        return f"the program {self._sources[0].name}"

    @property
    def warmup(self) -> str:
        return f"python -m tkjit run {' '.join(map(str, self._sources))}"

    def inputs(self) -> Iterable[str]:
        source_files = map(str, self._sources)
        return [*source_files, __file__, *rendering_files(), *self._env.toolchain.searched_paths(self._target)]

    def render(self) -> Recipe:
        texts = [f"// {path.name}\n{self._adapted(path)}" for path in self._sources]
        parts = {
            TEXT: "\n".join(texts),
            "flags": "\n".join((*self._flags.compile, *self._flags.link)),
            PATHS: "\n".join(map(str, self._flags.include_dirs)),
            "simulator": simulator_flags_of(self._target),
            "translator": translation.digest(),
        }
        directories = {f"source-{i}": path.parent for i, path in enumerate(self._sources)}
        return self._env.recipe(self._target.name, self._sources[0].stem, parts, self._target, directories)

    def _adapted(self, path: Path) -> str:
        from tkjit.source.adapt import adapt

        text = files.read(path, follow=True).decode(errors="replace")
        return f'#include <cuda_runtime.h>\n#line 1 "{path}"\n{adapt(text)}'  # nvcc includes this header automatically

    def make(self, staging: Path) -> Product:
        from tkjit.compile import compiler
        from tkjit.source.unsupported import retry_flags

        unit = compiler.Unit(
            self.what,
            "program.txt",
            self.recipe.text,
            self._env.failure_directory(self.recipe),
            self._sources[0],
            search=(*self._flags.search, *self._env.header_path),
            repair=translation.repair,
            retry_flags=retry_flags,
        )
        product = compiler.compile_binary(unit, staging, PROGRAM, self._steps(staging))
        for number in range(len(self._sources)):
            for suffix in ("cu", "o", "d"):
                (staging / f"source_{number}.{suffix}").unlink()
        return with_simulator_sources(product)

    def _steps(self, staging: Path) -> Callable[[Path, Path, Path], list[Step]]:
        cxx, simulator = str(self._env.toolchain.cxx.path), self._env.simulator(self._target, "")

        def steps(_: Path, output: Path, depfile: Path) -> list[Step]:
            commands: list[Step] = []
            for number, path in enumerate(self._sources):
                source, dependencies = staging / f"source_{number}.cu", staging / f"source_{number}.d"
                adapted = self._adapted(path)
                files.write(source, adapted)
                self._env.forward_to_curand(included_anywhere(adapted, self._own_dirs), staging)
                paths = (*self._flags.paths, f"-I{staging}")
                line = [cxx, *self._flags.compile, *paths, "-MD", "-MF", str(dependencies)]
                line += ["-x", "c++", str(source), "-c", "-o", str(source.with_suffix(".o"))]
                searched = Flags(self._flags.compile, paths)
                is_translated = translation.is_needed(adapted, searched)
                commands += translation.translated(line, source, adapted, searched) if is_translated else [line]

            def join_dependencies() -> None:
                texts = [(staging / f"source_{i}.d").read_text() for i in range(len(self._sources))]
                files.write(depfile, translation.joined_rules(texts))

            objects = [str(staging / f"source_{i}.o") for i in range(len(self._sources))]
            link = [cxx, *objects, str(simulator), *self._flags.link, "-pthread", "-o", str(output)]
            return [*commands, join_dependencies, link]

        return steps

    def explain(self, error: CompileError) -> TkjitError:
        from tkjit.source.unsupported import why_not_on_the_cpu

        if hint := how_to_find_curand(error.log):
            return ToolchainError(f"{self.what} does not compile: {hint}\n{error}")
        for path in self._sources:
            if reason := why_not_on_the_cpu(path.read_text(errors="replace"), str(path), error.log):
                return ToolchainError(f"{self.what} cannot run on the CPU: {reason}\n{error}")
        return error

    def load(self, module: str, path: Path) -> Path:
        return path
