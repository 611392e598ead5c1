"""The compiled calls of a set of headers: in memory, in the cache, or compiled now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tkjit.bindings.call_plans import CallsPlan, ClassPlan
from tkjit.bindings.companions import companions_in_batch, companions_of
from tkjit.bindings.expressions import Expression, Given
from tkjit.bindings.prepared import PreparedHeaders
from tkjit.bindings.record import record_call
from tkjit.bindings.refusals import refusal
from tkjit.bindings.typed_numbers import NUMBERS
from tkjit.cache import Entry
from tkjit.errors import ArgumentError, CompileError
from tkjit.loader.loader import Loader


class ClassOf(NamedTuple):
    """The class of a call's object, whose probable calls are compiled with the first one."""

    type_text: str
    arguments: tuple[Any, ...] = ()  # of its template


# bind.h's Form of what is no object in Python, and how that is given to a call
_PASSED = {
    1: ("", "bool"),
    2: ("text", "std::string"),
    3: ("", "int"),
    4: ("", "int"),
    5: ("", "double"),
    6: ("", "std::complex<double>"),
    7: ("text", "std::string"),
}


def _given_of_value(compiled: Any) -> Given:
    """How a result that is no object in Python is given to another call."""
    how, type_text = _PASSED[compiled.result_form]
    return Given(how, compiled.result_name if compiled.result_name in NUMBERS else type_text)


def given_of(compiled: Any, *, as_pointer: bool = False) -> Given | None:
    """How the result of a compiled call is given to another; None where it cannot be."""
    how = "const" if compiled.result_is_const else "object"
    if compiled.result_form in _PASSED:
        return None if as_pointer else _given_of_value(compiled)
    return Given({"const": "const pointer", "object": "pointer"}[how] if as_pointer else how, compiled.result_name)


class Unit(NamedTuple):
    """A compiled unit of a batch."""

    calls: CompiledCalls
    types: Any
    shared_object: Path
    opened: list[Any]

    def fits(self, compiled_for: Given, given: Given) -> bool:
        """Whether an argument is what the unit was compiled for: of another call's result, what that has returned."""
        if not compiled_for.how.startswith("deferred"):
            return compiled_for == given
        result = self.opened[int(compiled_for.type)]
        if result.result_form not in _PASSED:
            is_pointer = compiled_for.how.endswith("pointer")
            return given.type == result.result_name and given.how.endswith("pointer") == is_pointer
        return given == _given_of_value(result)

    def given_to(self, call: Expression) -> tuple[Given, ...] | None:
        """The types of a call's arguments, results of others resolved; None where there is no such result."""
        found = []
        for one in call.given:
            if one.how.startswith("deferred"):
                result = self.opened[int(one.type)]
                resolved = given_of(result, as_pointer=one.how.endswith("pointer")) if result is not None else None
                if resolved is None:
                    return None
                one = resolved
            found.append(one)
        return tuple(found)

    def keep(self, position: int, call: Expression) -> None:
        """Keep a call under the types that its arguments have turned out to have."""
        if not self.calls.is_kept(self.types, call, None):
            self.calls.put(call, self.shared_object, position, self.opened[position])


class CompiledCalls:
    """Finds and compiles calls.

    A call that is compiled together with others has an entry of its own, which shares their shared object.
    """

    def __init__(self, prepared: PreparedHeaders, loader: Loader) -> None:
        self._prepared = prepared
        self._loader = loader
        self._known: dict[Expression, Any] = {}  # None for an optional call that C++ does not have
        self._refused: dict[Expression, str] = {}
        self._met: set[str] = set()  # classes
        self._absent: dict[str, tuple[Expression, ...]] = {}  # companions of classes, of which the cache has none
        self._recorded: set[Expression] = set()
        self._origins: dict[str, Expression] = {}  # of types: what has returned the first object

    def get(
        self,
        types: Any,
        calls: Sequence[Expression],
        of: ClassOf | None = None,
        also: Callable[[], Sequence[Expression]] = tuple,
    ) -> list[Any]:
        """The compiled calls; None for an optional one that C++ does not have.

        Parameters
        ----------
        types : Types
            The runtime's.
        of : ClassOf, optional
            The class of whose objects they are.
        also : callable
            What is needed next, to be compiled with them where they have to be compiled and this compiles too.

        Raises
        ------
        ArgumentError
            If the compiler refuses one that is not optional; with its reasons.
        """
        companions = self._meet(types, of) if of is not None and of.type_text not in self._met else ()
        missing = self._find(types, calls)
        if missing:
            self._compile(types, missing, self._find(types, also()), of, companions)
        self._record(calls)
        return [self._known[call] for call in calls]

    def _record(self, calls: Sequence[Expression]) -> None:
        path = self._loader.settings.record
        if path is None:
            return
        for call in calls:
            if call not in self._recorded:
                self._recorded.add(call)
                returned = getattr(self._known[call], "result_name", "")  # of an optional call there may be none
                record_call(path, self._prepared.headers, replace(call, makes=returned))

    def is_kept(self, types: Any, call: Expression, of: ClassOf | None) -> bool:
        """Whether a call can be made without compiling."""
        if of is not None and of.type_text not in self._met and self._meet(types, of):
            self._met.discard(of.type_text)
        return not self._find(types, [call])

    def result_of(self, types: Any, call: Expression, of: ClassOf | None) -> Given | None:
        """How the result of a call is given to others; None where it is not compiled, or has none."""
        if not self.is_kept(types, call, of):
            return None
        return given_of(self._known[call])

    def compile_batch(
        self,
        types: Any,
        calls: Sequence[Expression],
        classes: Iterable[ClassOf],
        also: Sequence[Expression] = (),
        names: Collection[str] = (),
    ) -> Unit | None:
        """Compile calls that take each other's results in one unit; None where that is not possible.

        Parameters
        ----------
        calls : sequence of Expression
            The first one's arguments are all given. Others may take results.
        classes : iterable of ClassOf
            What the calls construct.
        also : sequence of Expression
            See ``get``.
        names : collection of str
            Of methods that may be called on what is constructed.
        """
        if calls[0] in self._known:
            return None
        texts = dict.fromkeys(of.type_text for of in classes)
        later = {*names} - {call.name.split("::")[-1] for call in calls}
        probable = [call for text in texts for call in companions_in_batch(text, self._members(text), later)]
        extra = [*self._find(types, also), *probable]
        together = [*calls, *extra]
        plan = CallsPlan(self._prepared, calls[0], together, optional=len(together) - len(calls))
        try:
            entry = self._loader.find_or_build(plan)
        except CompileError:
            return None  # each alone, for a message that names it
        if plan.compiled is None:
            return None
        opened = types.open(str(entry.shared_object))
        self._remember(calls[0], opened[0])
        found = list(zip(extra, opened[len(calls) :], strict=False))
        names = _names_of_types(found)
        for position, (call, compiled) in enumerate(found, len(calls)):
            if compiled is not None and not call.makes:
                self.put(call.with_types(names), entry.shared_object, position, compiled)
        return Unit(self, types, entry.shared_object, opened)

    def put(self, call: Expression, shared_object: Path, position: int, compiled: Any) -> None:
        """Keep a call that was compiled in a unit of others."""
        self._remember(call, compiled)
        self._loader.find_or_build(CallsPlan(self._prepared, call, shared=(shared_object, position)))

    def _remember(self, call: Expression, compiled: Any) -> None:
        self._known[call] = compiled
        if compiled is not None:
            self._origins.setdefault(compiled.result_name, replace(call, is_optional=False))

    def _find(self, types: Any, calls: Iterable[Expression]) -> list[Expression]:
        """Look up calls in the cache; those that are not in it."""
        missing = []
        for call in dict.fromkeys(calls):
            if call in self._known and (call.is_optional or self._known[call] is not None):
                continue
            entry = self._loader.find(CallsPlan(self._prepared, call))
            if entry is None:
                missing.append(call)
            else:
                found = _open(types, entry, call)[int(entry.module)]
                if found is None and not call.is_optional:
                    raise ArgumentError(f"{call}: C++ has no such expression")
                self._remember(call, found)
        return missing

    def _meet(self, types: Any, of: ClassOf) -> tuple[Expression, ...]:
        """What is to be compiled for a class that is new here; nothing where the cache has it."""
        self._met.add(of.type_text)
        if of.type_text in self._absent:
            return self._absent[of.type_text]
        companions = companions_of(of.type_text, of.arguments, self._members(of.type_text))
        if not companions:
            return ()
        entry = self._loader.find(ClassPlan(self._prepared, of.type_text, companions))
        if entry is None:
            self._absent[of.type_text] = companions
            return companions
        opened = types.open(str(entry.shared_object))[int(entry.module) :]
        self._learn(zip(companions, opened, strict=False))
        return ()

    def _learn(self, found: Iterable[tuple[Expression, Any]]) -> None:
        """Remember the calls of a class, under the full names of its types."""
        there = [(call, compiled) for call, compiled in found if compiled is not None]
        names = _names_of_types(there)
        self._met.update(names.values())
        for call, compiled in there:
            if (full := call.with_types(names)) not in self._known:
                self._remember(full, compiled)

    def _compile_with_characters(self, types: Any, missing: Sequence[Expression]) -> bool:
        """Compile calls with each str as a ``const char*``, where C++ took no ``std::string``; whether it does."""
        calls = [call.with_characters() for call in missing]
        if calls == list(missing):
            return False
        plan = CallsPlan(self._prepared, calls[0], calls, origins=self._origins)
        try:
            entry = self._loader.find_or_build(plan)
        except CompileError:
            return False
        opened = _open(types, entry, calls[0])
        first = int(entry.module)
        for position, call in enumerate(missing, first):
            self.put(call, entry.shared_object, position, opened[position])
        return True

    def _members(self, type_text: str) -> dict[str, Any]:
        return self._prepared.declarations.members(type_text.removeprefix("::"))

    def _compile(
        self,
        types: Any,
        missing: Sequence[Expression],
        also: Sequence[Expression],
        of: ClassOf | None,
        companions: tuple[Expression, ...],
    ) -> None:
        for call in missing:
            if call in self._refused:
                raise ArgumentError(self._refused[call])
        optional = [*also, *companions]
        plan = CallsPlan(
            self._prepared, missing[0], [*missing, *optional], optional=len(optional), origins=self._origins
        )
        try:
            entry = self._loader.find_or_build(plan)
        except CompileError as error:
            if self._compile_with_characters(types, missing):
                return
            refused = next((call for call in missing if not call.is_optional), missing[0])
            text = self._refused[refused] = refusal(refused, error, self._prepared.declarations)
            raise ArgumentError(text) from error
        if plan.compiled is not None and len(plan.compiled) > len(missing):
            try:
                types.open(str(entry.shared_object))
            except ImportError:  # a companion is declared, and no library defines it
                plan = CallsPlan(self._prepared, missing[0], missing, origins=self._origins)
                entry = self._loader.find_or_build(plan, replacing=entry)
        shared = entry.shared_object
        opened = _open(types, entry, missing[0])
        if plan.compiled is None:  # another process was first
            self._remember(missing[0], opened[int(entry.module)])
            if missing[1:]:
                self.get(types, missing[1:])
            return
        self._remember(missing[0], opened[0])
        for position, call in enumerate(missing[1:], 1):
            self.put(call, shared, position, opened[position])
        first = len(missing)
        if len(plan.compiled) == first:
            return
        for position, call in enumerate(also, first):
            if opened[position] is not None:
                self.put(call, shared, position, opened[position])
        if of is not None and companions:
            first += len(also)
            self._learn(zip(companions, opened[first:], strict=True))
            self._loader.find_or_build(ClassPlan(self._prepared, of.type_text, companions, shared=(shared, first)))


def _open(types: Any, entry: Entry, call: Expression) -> list[Any]:
    """The calls of a unit.

    Raises
    ------
    ArgumentError
        If a call needs what no library defines.
    """
    try:
        opened: list[Any] = types.open(str(entry.shared_object))
    except ImportError as error:
        raise ArgumentError(f"{call}: it compiles, and cannot be loaded: {error}") from None
    return opened


def _names_of_types(found: Iterable[tuple[Expression, Any]]) -> dict[str, str]:
    """The full names of types that are spelled by a text."""
    return {call.makes: compiled.result_name for call, compiled in found if call.makes and compiled is not None}
