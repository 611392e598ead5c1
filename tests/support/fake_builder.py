"""A fake builder for cache tests, its recipe, and lookups of its builds."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from tkjit.cache import Cache, Entry, Product, Recipe, fingerprints
from tkjit.cache.recipe import digest_of
from tkjit.errors import CompileError

ABI = "cpython-311"
RECIPE = Recipe(
    "sm_90a", "gemm", (("text", "int main() {}"), ("flags", "-O3"), ("torch", "2.11")), tools=(("cxx", "g++ 12"),)
)


class Builder:
    """Writes a shared object with its dependencies' contents in it, and counts its calls."""

    def __init__(
        self,
        *dependencies: Path,
        error: BaseException | None = None,
        seconds: float = 0,
        search: tuple[Path, ...] = (),
        during: Callable[[], object] = lambda: None,
        facts: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        self.dependencies, self.search, self.during = dependencies, search, during
        self.error, self.seconds, self.facts, self.calls = error, seconds, facts, 0

    def __call__(self, staging: Path) -> Product:
        self.calls += 1
        time.sleep(self.seconds)
        (staging / "launcher.cu").write_text("int main() {}")
        (staging / "build.log").write_text("nvcc")
        (staging / "launcher.so").write_bytes(machine_code(*self.dependencies))
        self.during()
        if self.error:
            raise self.error
        facts = {"seconds": 1.5, "module": "tkjit_glue_0", **self.facts}
        return Product("launcher.so", self.dependencies, facts, self.search)


def machine_code(*dependencies: Path) -> bytes:
    return b"machine code " + b"".join(path.read_bytes() for path in dependencies)


def write(path: Path, text: str) -> None:
    """Write a file and wait until later files get a later time, because file times advance only every 4 to 10 ms."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    let_the_clock_tick(path)


def let_the_clock_tick(path: Path) -> None:
    """Wait until newly written files get a later time than this file."""
    while True:
        with tempfile.TemporaryFile() as probe:
            if os.fstat(probe.fileno()).st_ctime_ns > path.stat().st_ctime_ns:
                return
        time.sleep(0.001)


def below(directory: Path, pattern: str) -> list[str]:
    return sorted(path.name for path in directory.rglob(pattern))


def loader_lookup(cache: Cache, recipe: Recipe = RECIPE) -> Entry | None:
    """Look up as a loader does: by the warm record, then by the recipe."""
    warm_key = digest_of(repr(recipe))[:16]
    return cache.warm_lookup(warm_key) or cache.lookup(recipe, warm_key=warm_key)


def records_of(cache: Cache) -> list[Path]:
    return sorted((cache.base / fingerprints.DIRECTORY).glob("*"))


def staging_in(cache: Cache) -> list[str]:
    return below(cache.root, ".staging*")


def recipe_with_part(name: str, value: str, recipe: Recipe = RECIPE) -> Recipe:
    """Return a recipe with one part changed."""
    return replace(recipe, parts=tuple((n, value if n == name else text) for n, text in recipe.parts))


def recipe_with_anchor(directory: Path) -> Recipe:
    """Return the recipe of a kernel in a directory."""
    parts = (*RECIPE.parts, ("paths", f"{directory}\n{directory / 'sub'}"))
    return replace(RECIPE, parts=parts, anchors=(("kernels", str(directory)),), own=("kernels",))


def compile_error(cache: Cache, recipe: Recipe = RECIPE) -> CompileError:
    """Return a compile error, after writing the log that a failed build leaves in the cache."""
    log = cache.failure_directory(recipe) / "build.log"
    cache.make_directory(log.parents[1])
    log.parent.mkdir(0o700, exist_ok=True)
    log.write_text("nvcc\nerror: no")
    return CompileError("a.cu:1: error: no", what="gemm", log="error: no", log_path=log, command="nvcc a.cu")


def forget_leases(cache: Cache) -> None:
    """Drop the cache's leases, as the end of a process does."""
    if cache.leases._descriptor is not None:
        os.close(cache.leases._descriptor)
        cache.leases._descriptor = None
