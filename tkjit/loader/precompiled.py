"""The header of all glue, precompiled: reading it is half of what compiling a glue costs.

A compiler that finds the file unfit, for its flags are others, reads the header itself. So it only saves time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tkjit.cache import PATHS, TEXT, Product, Recipe
from tkjit.loader import environment
from tkjit.loader.environment import Environment
from tkjit.loader.glue_flags import split
from tkjit.loader.plan import Plan
from tkjit.system.fork_safe import cached_property

GLUE_HEADER = "glue_header"
HEADER = "tkjit_glue.h"


class GlueHeaderPlan(Plan):
    """The precompiled header.

    Parameters
    ----------
    words : sequence of str
        The flags with which a glue is compiled.
    """

    def __init__(self, env: Environment, words: Iterable[str]) -> None:
        self._env = env
        self._words = tuple(words)

    what = "the header of glue (once per environment)"
    warmup = "python -m tkjit warmup"

    @cached_property
    def warm_key(self) -> str:
        return self._env.warm_key(GLUE_HEADER, self._words)

    def inputs(self) -> Iterable[str]:
        return [__file__, environment.__file__, *self._env.toolchain.searched_paths()]

    def render(self) -> Recipe:
        flags, directories = split(self._words)
        parts = {TEXT: "#include <glue.h>\n", "flags": "\n".join(flags), PATHS: "\n".join(directories)}
        return self._env.recipe(GLUE_HEADER, "glue", parts)

    def make(self, staging: Path) -> Product:
        from tkjit.compile import compiler

        env = self._env
        unit = compiler.Unit(
            self.what,
            HEADER,
            self.recipe.text,
            env.failure_directory(self.recipe),
            search=(*map(Path, split(self._words)[1]), *env.header_path),
        )

        def commands(source: Path, output: Path, depfile: Path) -> list[compiler.Step]:
            # -MMD: what identifies torch stands for its headers in the glue
            files = ["-MMD", "-MF", str(depfile), "-x", "c++-header", str(source), "-o", str(output)]
            return [[str(env.toolchain.cxx.path), *self._words, *files]]

        product = compiler.compile_binary(unit, staging, f"{HEADER}.gch", commands)
        # of 42 MB, and sooner made than fetched
        return replace(product, facts={**product.facts, "stays_here": True})

    def load(self, module: str, path: Path) -> Path:
        return path
