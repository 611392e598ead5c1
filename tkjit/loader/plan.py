"""What every plan has: something that can be built, by which recipe, and the command that builds it ahead of time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from tkjit.cache import Entry, Product, Recipe, fingerprints
from tkjit.errors import CompileError, TkjitError


class Opened(NamedTuple):
    """What was loaded, and of which entry."""

    loaded: Any  # a module, or the address of a launch function
    entry: Entry


class Plan(ABC):
    """One thing that can be built. A warm call makes plans and asks no more of them than their warm keys."""

    @cached_property
    @abstractmethod
    def warm_key(self) -> str:
        """A name for all that its recipe depends on besides files."""

    @property
    @abstractmethod
    def what(self) -> str:
        """What a person calls it: ``gemm (T=float32) for sm_90a``."""

    @property
    @abstractmethod
    def warmup(self) -> str:
        """The command that builds it ahead of time."""

    @abstractmethod
    def inputs(self) -> Iterable[str]:
        """The files that its recipe depends on."""

    @abstractmethod
    def render(self) -> Recipe:
        """Make its recipe."""

    @abstractmethod
    def make(self, staging: Path) -> Product:
        """Build it in a staging directory."""

    @abstractmethod
    def load(self, module: str, path: Path) -> Any:
        """Load its shared object: a module, or the address of a launch function. It raises ImportError."""

    def explain(self, error: CompileError) -> TkjitError:
        """Give a compile error the reason that the compiler cannot know."""
        return error

    @cached_property
    def rendered(self) -> tuple[Recipe, bytes]:
        """The recipe, and the fingerprint of its files from before it was made: an edit in between is seen."""
        fingerprint = fingerprints.of(self.inputs())
        return self.render(), fingerprint

    @property
    def recipe(self) -> Recipe:
        return self.rendered[0]
