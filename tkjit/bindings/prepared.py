"""Prepares a set of headers: reads its declarations, builds its precompiled header, and loads its libraries."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tkjit.bindings.declarations import Declarations
from tkjit.bindings.header_plans import PRECOMPILED, DeclarationsPlan, LibrariesPlan, MembersPlan, PrecompiledHeaderPlan
from tkjit.bindings.header_set import HeaderSet
from tkjit.cache import Entry, eviction
from tkjit.errors import CompileError, TkjitError, ToolchainError
from tkjit.loader.environment import Environment
from tkjit.loader.loader import Loader
from tkjit.loader.plan import Opened
from tkjit.system import files
from tkjit.system.fork_safe import cached_property

MOST_PRECOMPILED_BYTES = 2 << 30  # about 20 sets of headers


class PreparedHeaders:
    """The parts of a set of headers that compiled calls need. Each part is made when a call first needs it."""

    def __init__(self, headers: HeaderSet, loader: Loader) -> None:
        self.headers = headers
        self._loader = loader
        self._members: dict[str, list[str]] = {}

    @property
    def env(self) -> Environment:
        return self._loader.env

    @cached_property
    def declarations(self) -> Declarations:
        return Declarations.read(self._declared.shared_object)

    @cached_property
    def _declared(self) -> Entry:
        plan = DeclarationsPlan(self.env, self.headers, self.precompiled)
        try:
            return self._loader.find_or_build(plan)
        except CompileError as error:
            raise ToolchainError(f"bind: the headers do not compile: {error}") from None

    def members(self, type_text: str) -> list[str]:
        """Return the names of the members of a class and its bases, or an empty list if they cannot be found.

        The first lookup of a class takes a second or two. Completion and the suggestions in errors use the names.
        """
        if type_text not in self._members:
            self._members[type_text] = []
            with suppress(TkjitError):
                entry = self._loader.find_or_build(MembersPlan(self.env, self.headers, self.digest, type_text))
                self._members[type_text] = files.read_json(entry.shared_object)
        return self._members[type_text]

    @property
    def digest(self) -> str:
        """A digest of the contents of the headers and libraries."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        entries = [self._declared, *([self._linked.entry] if self._linked is not None else [])]
        return " ".join(f"{entry.directory.parent.name}/{entry.directory.name}" for entry in entries)

    @cached_property
    def _linked(self) -> Opened | None:
        """The libraries' shared object, which this process has loaded, or None if there are no libraries."""
        if not self.headers.link_flags:
            return None
        try:
            return self._loader.open(LibrariesPlan(self.env, self.headers))
        except CompileError as error:
            raise ToolchainError(f"bind: the libraries cannot be linked: {error}") from None
        except OSError as error:
            raise ToolchainError(f"bind: the libraries are linked, but cannot be loaded: {error}") from None

    @property
    def libraries(self) -> Path | None:
        """The shared object of the libraries, or None if there are no libraries.

        If the file has been removed from the cache, tkjit links the libraries again, because new calls are linked
        against this file. The process keeps using the shared object that it has already loaded; the new calls find it
        by its name.
        """
        if self._linked is None or self._linked.entry.shared_object.exists():
            return self._linked and self._linked.entry.shared_object
        return self._loader.find_or_build(LibrariesPlan(self.env, self.headers)).shared_object

    def precompiled(self) -> Entry:
        """Return the entry of the precompiled header. Building it may evict older ones, to limit their total size."""
        plan, cache = PrecompiledHeaderPlan(self.env, self.headers), self._loader.cache
        if (found := self._loader.find(plan)) is not None:
            return found
        built = self._loader.find_or_build(plan)
        with suppress(OSError):  # a failed eviction must not fail a build that has succeeded
            eviction.keep_newest(cache, PRECOMPILED, MOST_PRECOMPILED_BYTES)
        return built
