"""Plans: what can be built, by which recipe, and the command that builds it ahead of time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tkjit.cache import Product, Recipe, notes
from tkjit.errors import CompileError
from tkjit.registry import MODULES
from tkjit.spec import Spec, Variant
from tkjit.targets import Target


@dataclass(frozen=True)
class Plan:
    """One thing that can be built.

    Parameters
    ----------
    what : str
        What a person calls it: ``gemm (T=float32) for sm_90a``.
    shortcut : str
        Names all that its recipe depends on besides files.
    inputs : callable
        The files that the recipe depends on.
    render : callable
        Makes the recipe.
    make : callable
        Builds it in a staging directory.
    opened : callable
        Loads its shared object: a module, or the address of a launch function. It raises ImportError.
    warmup : str
        The command that builds it ahead of time.
    explain : callable
        Gives a compile error the reason that the compiler cannot know.
    """

    what: str
    shortcut: str
    inputs: Callable[[], Iterable[str]] = field(compare=False, repr=False)
    render: Callable[[], Recipe] = field(compare=False, repr=False)
    make: Callable[[Path, Recipe], Product] = field(compare=False, repr=False)
    opened: Callable[[str, Path], Any] = field(compare=False, repr=False)
    warmup: str = ""
    explain: Callable[[CompileError], Exception] = field(default=lambda error: error, compare=False, repr=False)

    @cached_property
    def rendered(self) -> tuple[Recipe, bytes]:
        """The recipe, and the identities of its files from before it was made: an edit in between is seen."""
        identities = notes.identities(self.inputs())
        return self.render(), identities

    @property
    def is_launcher(self) -> bool:
        """Whether it is a variant's launcher, and not a module."""
        return not self.shortcut.startswith(("glue-", "runtime-"))

    @property
    def recipe(self) -> Recipe:
        return self.rendered[0]


def describe(spec: Spec, variant: Variant, target: Target) -> str:
    """What a person reads while it is built: ``gemm (T=float32) for sm_90a``."""
    return f"{spec.name}{f' ({variant})' if variant.values else ''} for {target.name}"


def warmup_command(spec: Spec, variant: Variant | None = None, target: Target | None = None) -> str:
    """The command that builds a variant ahead of time; for glue, that of the whole kernel."""
    if spec.module == "__main__" or not spec.module:
        return "call it once where TKJIT_JIT is not 0; a kernel of a script or a notebook has no name to warm it up by"
    if not spec.module.startswith(f"{MODULES}."):
        return "python -m tkjit warmup --record used.jsonl -- COMMAND, and then warmup --from-file used.jsonl"
    words = ["python -m tkjit warmup", spec.name]
    if target is not None:
        words.append("--device cpu" if target.is_cpu else f"--arch {target.arch}")
    types = [str(value) for _, value in variant.values if isinstance(value, str)] if variant else []
    if types:
        words.append(f"--types {','.join(dict.fromkeys(types))}")
    return " ".join(words)
