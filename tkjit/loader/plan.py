"""The interface of all plans. A plan describes, builds and loads one cache entry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tkjit.cache import Entry, Product, Recipe, fingerprints
from tkjit.errors import CompileError, TkjitError
from tkjit.system.fork_safe import cached_property


class Opened(NamedTuple):
    """A loaded object, together with its entry."""

    loaded: Any  # a module, or the address of a launcher
    entry: Entry


class Plan(ABC):
    """Something that tkjit can build: the runtime, a kernel's glue, a launcher, the simulator's object, a checker.

    ``Loader.open`` uses the members of a plan in this order:

    1. ``warm_key``: ``Cache.warm_lookup`` returns the entry of the last lookup, if no file has changed since then. A
       warm call ends here and renders nothing.
    2. ``inputs`` and ``render``: the files are fingerprinted before the recipe is rendered, so an edit in between is
       noticed. ``Cache.lookup`` then searches the layers and the cache for the recipe.
    3. ``what`` and ``warmup``: on a miss, the errors of ``check_may_compile`` contain the item's name and the command
       that builds it ahead of time.
    4. ``make``: ``Cache.build`` calls it in a staging directory, under the build lock, and publishes the product.
    5. ``explain``: if the compiler fails, adds to its error the reason that the compiler cannot know.
    6. ``load``: opens the shared object. If this machine cannot load it, it is built once more.
    """

    @cached_property
    @abstractmethod
    def warm_key(self) -> str:
        """A name that identifies all inputs of the recipe except the files."""

    @property
    @abstractmethod
    def what(self) -> str:
        """The name in messages: ``gemm (T=float32) for sm_90a``."""

    @property
    @abstractmethod
    def warmup(self) -> str:
        """The command that builds the plan ahead of time."""

    @abstractmethod
    def inputs(self) -> Iterable[str]:
        """Return the files on which the recipe depends."""

    @abstractmethod
    def render(self) -> Recipe:
        """Make the recipe."""

    @abstractmethod
    def make(self, staging: Path) -> Product:
        """Build in a staging directory."""

    @abstractmethod
    def load(self, module: str, path: Path) -> Any:
        """Load the shared object; return a module or the address of a launch function. May raise ImportError."""

    @property
    def watch_after_s(self) -> float | None:
        """Seconds after which a watchdog guards the compilers that ``make`` starts. None if it starts no compiler."""
        return 0.0

    def explain(self, error: CompileError) -> TkjitError:
        """Add to a compile error the reason that the compiler cannot know."""
        return error

    @cached_property
    def rendered(self) -> tuple[Recipe, bytes]:
        """The recipe and its files' fingerprint, taken before rendering so that an edit in between is noticed."""
        fingerprint = fingerprints.of(self.inputs())
        return self.render(), fingerprint

    @property
    def recipe(self) -> Recipe:
        return self.rendered[0]
