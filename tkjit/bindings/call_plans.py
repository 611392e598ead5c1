"""The cache entries for compiled calls, and for the calls that belong to a class."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from tkjit.bindings import expressions
from tkjit.bindings.expressions import Expression, render_unit
from tkjit.bindings.header_plans import HEADERS, HeaderSetPlan
from tkjit.bindings.header_set import HeaderSet
from tkjit.cache import Entry, Product, Recipe
from tkjit.errors import CompileError
from tkjit.loader.environment import Environment
from tkjit.system.fork_safe import cached_property

_NOT_ACCESSIBLE = ("within this context", "is inaccessible")  # how g++ and nvcc's front end report private names
# The watchdog of a unit's compiler starts only after this time (see ``Cache.build``). Most units have compiled by then,
# and a watchdog would make each of them a tenth slower.
_UNWATCHED_S = 1.0
_CALLS, _CALLS_OBJECT = "calls.cpp", "calls.so"


class Prepared(Protocol):
    """The part of ``PreparedHeaders`` that compiling a call needs."""

    headers: HeaderSet

    @property
    def env(self) -> Environment: ...
    @property
    def digest(self) -> str: ...
    @property
    def libraries(self) -> Path | None: ...
    def precompiled(self) -> Entry: ...


class UnitPlan(HeaderSetPlan):
    """One or more compiled calls. Their shared object may contain other calls as well.

    Parameters
    ----------
    calls : sequence of Expression
        The calls of this entry. They are adjacent in the unit.
    shared : tuple of Path and int, optional
        The shared object that already contains the compiled calls, and the position of the first call in it.
    """

    def __init__(self, prepared: Prepared, calls: Sequence[Expression], shared: tuple[Path, int] | None = None) -> None:
        super().__init__(prepared.env, prepared.headers)
        self._prepared = prepared
        self._calls = calls
        self._shared = shared

    @cached_property
    def warm_key(self) -> str:
        calls = [(call.form, call.arguments) for call in self._calls]
        key = hashlib.sha256(repr((self._prepared.digest, calls)).encode()).hexdigest()[:16]
        return self._env.warm_key(f"{self.arch}-{self._headers.name}-{key}", self._headers)

    def inputs(self) -> Iterable[str]:
        return [*super().inputs(), __file__, expressions.__file__]

    def render(self) -> Recipe:
        # is_optional belongs to the request, not to the compiled call, so it must not affect the recipe
        text = render_unit([replace(call, is_optional=False) for call in self._calls])
        return self._recipe(text, headers=self._prepared.digest, link=" ".join(self._link_flags))

    @property
    def _link_flags(self) -> list[str]:
        option = "-Wl,--no-as-needed" if self._target.is_cpu else "-Xlinker=--no-as-needed"
        return [option] if self._prepared.libraries else []

    @property
    def watch_after_s(self) -> float | None:
        return _UNWATCHED_S if self._shared is None else None

    @property
    def _quick_linking(self) -> list[str]:
        chosen = any("-fuse-ld" in flag for flag in self._headers.flags)
        return self._env.toolchain.quick_linking if self._target.is_cpu and not chosen else []

    def make(self, staging: Path) -> Product:
        from tkjit.system import files

        if self._shared is not None:
            path, position = self._shared
            with suppress(OSError):  # the file has been removed, or the file system has no hard links
                os.link(path, staging / _CALLS_OBJECT)
                files.write(staging / _CALLS, self.recipe.text)
                return Product(_CALLS_OBJECT, (), {"what": self.what, "module": str(position)})
        return self._compile(staging, self._calls)

    def _text(self, calls: Sequence[Expression]) -> str:
        return render_unit(calls)

    def _compile(self, staging: Path, calls: Sequence[Expression]) -> Product:
        from tkjit.compile import compiler

        headers = self._prepared.precompiled().directory / HEADERS
        libraries = self._prepared.libraries
        failures = self._env.failure_directory(self.recipe)
        unit = compiler.Unit(self.what, _CALLS, self._text(calls), failures, libraries=(), is_measured=False)

        def commands(source: Path, output: Path, depfile: Path) -> list[list[str]]:
            line = self._command(self._flags, source, output, depfile, "-shared", "-include", str(headers))
            linking = [*self._quick_linking, *self._link_flags, *([str(libraries)] if libraries else [])]
            return [[*line, *linking]]

        product = compiler.compile_binary(unit, staging, _CALLS_OBJECT, commands)
        # no dependencies, because the digest in the recipe covers the headers
        return Product(product.shared_object, (), {**product.facts, "module": "0"})


class CallsPlan(UnitPlan):
    """A compiled call.

    Parameters
    ----------
    together : sequence of Expression, optional
        All calls in the unit: this call first, then the calls to compile with it.
    optional : int
        How many calls at the end of ``together`` to leave out if the unit does not compile with them.
    origins : mapping of str to Expression, optional
        Maps a type to a call that returned an object of that type. A type that C++ code may not name is spelled as the
        result type of that call.
    """

    arch = "calls"

    def __init__(
        self,
        prepared: Prepared,
        call: Expression,
        together: Sequence[Expression] = (),
        optional: int = 0,
        shared: tuple[Path, int] | None = None,
        origins: Mapping[str, Expression] | None = None,
    ) -> None:
        super().__init__(prepared, [call], shared)
        self._origins = origins or {}
        self._hidden: dict[str, Expression] = {}
        self._together = together or [call]
        self._optional = optional
        self.compiled: Sequence[Expression] | None = None  # None if this plan has compiled nothing

    @property
    def what(self) -> str:
        return str(self._calls[0])

    def _compile(self, staging: Path, calls: Sequence[Expression]) -> Product:
        needed = len(self._together) - self._optional
        types = {one.type for call in self._together for one in call.arguments}
        self._hidden = {name: call for name, call in self._origins.items() if _is_unnameable(name)}
        try:
            return self._compile_most(staging, needed)
        except CompileError as error:
            if not any(sign in error.log for sign in _NOT_ACCESSIBLE) or not types & self._origins.keys():
                raise
            self._hidden = dict(self._origins)
            return self._compile_most(staging, needed)

    def _compile_most(self, staging: Path, needed: int) -> Product:
        try:
            product = super()._compile(staging, self._together)
            self.compiled = self._together
        except CompileError:
            if not self._optional:
                raise
            product = super()._compile(staging, self._together[:needed])
            self.compiled = self._together[:needed]
        return product

    def _text(self, calls: Sequence[Expression]) -> str:
        return render_unit(calls, self._hidden)


def _is_unnameable(type_text: str) -> bool:
    # EUl is from the mangled name of a generic closure, which libstdc++ does not demangle
    return any(sign in type_text for sign in ("{lambda", "{unnamed", "(anonymous", "EUl"))


class ClassPlan(UnitPlan):
    """The calls that objects of a class probably need.

    If the body of one of these calls does not compile, the unit is compiled without any of them.
    """

    arch = "classes"

    def __init__(
        self,
        prepared: Prepared,
        type_text: str,
        calls: Sequence[Expression],
        shared: tuple[Path, int] | None = None,
    ) -> None:
        super().__init__(prepared, calls, shared)
        self._type_text = type_text

    @property
    def what(self) -> str:
        return f"the class {self._type_text.removeprefix('::')}"
