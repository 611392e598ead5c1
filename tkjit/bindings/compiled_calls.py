"""Finds the compiled calls for a set of headers in memory or in the cache, and compiles those that are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tkjit.bindings.call_plans import CallsPlan, ClassPlan
from tkjit.bindings.class_members import members_for_arrays, members_of
from tkjit.bindings.compile_errors import refusal
from tkjit.bindings.cpp_types import NUMBERS
from tkjit.bindings.expressions import Argument, Expression
from tkjit.bindings.prepared import PreparedHeaders
from tkjit.bindings.recorded_calls import record_call
from tkjit.cache import Entry
from tkjit.errors import ArgumentError, CompileError
from tkjit.loader.loader import Loader


class ClassOf(NamedTuple):
    """The class to which a call belongs. The first call on a class also compiles the calls that probably follow."""

    type_text: str
    arguments: tuple[Any, ...] = ()  # the template arguments


# For results that are Python values rather than bound objects. Maps bind.h's Form to the ``how`` and ``type`` of the
# Argument that passes such a result to another call.
_PASSED = {
    1: ("", "bool"),
    2: ("text", "std::string"),
    3: ("", "int"),
    4: ("", "int"),
    5: ("", "double"),
    6: ("", "std::complex<double>"),
    7: ("text", "std::string"),
}


def _argument_of_value(compiled: Any) -> Argument:
    """Return the ``Argument`` that passes a call's result to another call, if the result is a Python value."""
    how, type_text = _PASSED[compiled.result_form]
    return Argument(how, compiled.result_name if compiled.result_name in NUMBERS else type_text)


class Unit(NamedTuple):
    """A compiled unit of a batch."""

    calls: CompiledCalls
    types: Any
    shared_object: Path
    opened: list[Any]

    def fits(self, compiled_for: Argument, argument: Argument) -> bool:
        """Return whether an argument has the type for which the unit was compiled.

        If the argument is the result of another call, compare with the type that this call returned.
        """
        if not compiled_for.how.startswith("deferred"):
            return compiled_for == argument
        result = self.opened[int(compiled_for.type)]
        if result.result_form not in _PASSED:
            is_pointer = compiled_for.how.endswith("pointer")
            return argument.type == result.result_name and argument.how.endswith("pointer") == is_pointer
        return argument == _argument_of_value(result)

    def keep(self, position: int, call: Expression) -> None:
        """Store a call under the types that its arguments actually had."""
        if not self.calls.is_kept(self.types, call, None):
            self.calls.put(call, self.shared_object, position, self.opened[position])


class CompiledCalls:
    """Finds and compiles calls.

    Each call has its own cache entry. Calls that were compiled together use the same shared object.
    """

    def __init__(self, prepared: PreparedHeaders, loader: Loader) -> None:
        self._prepared = prepared
        self._loader = loader
        self._known: dict[Expression, Any] = {}  # None for an optional call that does not compile
        self._rejected: dict[Expression, str] = {}  # why the compiler rejected each call
        self._seen_classes: set[str] = set()
        self._uncached_members: dict[str, tuple[Expression, ...]] = {}  # by class
        self._recorded: set[Expression] = set()
        self._origins: dict[str, Expression] = {}  # for each type, the call that returned its first object

    def get(
        self,
        types: Any,
        calls: Sequence[Expression],
        of: ClassOf | None = None,
        also: Callable[[], Sequence[Expression]] = tuple,
    ) -> list[Any]:
        """Return the compiled calls, with None for each optional call that does not compile.

        Parameters
        ----------
        types : Types
            The library's types, from the runtime.
        of : ClassOf, optional
            The class to which the calls belong.
        also : callable
            Returns the calls that will probably be needed next. If ``calls`` have to be compiled, tkjit compiles these
            calls as well, but it is no error if they fail.

        Raises
        ------
        ArgumentError
            If the compiler rejects a call that is not optional. The error contains the compiler's reasons.
        """
        members = self._load_class(types, of) if of is not None and of.type_text not in self._seen_classes else ()
        missing = self._find(types, calls)
        if missing:
            self._compile(types, missing, self._find(types, also()), of, members)
        self._record(calls)
        return [self._known[call] for call in calls]

    def _record(self, calls: Sequence[Expression]) -> None:
        path = self._loader.settings.record
        if path is None:
            return
        for call in calls:
            if call not in self._recorded:
                self._recorded.add(call)
                returned = getattr(self._known[call], "result_name", "")  # an optional call may be None
                record_call(path, self._prepared.headers, replace(call, makes=returned))

    def is_kept(self, types: Any, call: Expression, of: ClassOf | None) -> bool:
        """Return whether a call can be made without compiling."""
        if of is not None and of.type_text not in self._seen_classes and self._load_class(types, of):
            self._seen_classes.discard(of.type_text)
        return not self._find(types, [call])

    def compile_batch(
        self,
        types: Any,
        calls: Sequence[Expression],
        classes: Iterable[ClassOf],
        also: Sequence[Expression] = (),
    ) -> Unit | None:
        """Compile calls that take each other's results as one unit. Return None if that is not possible.

        Parameters
        ----------
        calls : sequence of Expression
            The calls in order. Each may take the results of the calls before it.
        classes : iterable of ClassOf
            The classes whose objects the calls construct.
        also : sequence of Expression
            See ``get``.
        """
        if calls[0] in self._known:
            return None
        texts = dict.fromkeys(of.type_text for of in classes)
        probable = [call for text in texts for call in members_for_arrays(text, self._members(text))]
        extra = [*self._find(types, also), *probable]
        together = [*calls, *extra]
        plan = CallsPlan(self._prepared, calls[0], together, optional=len(together) - len(calls))
        try:
            entry = self._loader.find_or_build(plan)
        except CompileError:
            return None  # the caller then compiles the calls one by one, so that the error names the right call
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
        """Store a call that was compiled together with other calls."""
        self._remember(call, compiled)
        self._loader.find_or_build(CallsPlan(self._prepared, call, shared=(shared_object, position)))

    def _remember(self, call: Expression, compiled: Any) -> None:
        self._known[call] = compiled
        if compiled is not None:
            self._origins.setdefault(compiled.result_name, replace(call, is_optional=False))

    def _find(self, types: Any, calls: Iterable[Expression]) -> list[Expression]:
        """Look up calls in the cache, and return the calls that are missing from it."""
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

    def _load_class(self, types: Any, of: ClassOf) -> tuple[Expression, ...]:
        """Load the calls that a class will probably need.

        Return these calls if they are not in the cache, so that the caller compiles them; otherwise an empty tuple.
        """
        self._seen_classes.add(of.type_text)
        if of.type_text in self._uncached_members:
            return self._uncached_members[of.type_text]
        members = members_of(of.type_text, of.arguments, self._members(of.type_text))
        if not members:
            return ()
        entry = self._loader.find(ClassPlan(self._prepared, of.type_text, members))
        if entry is None:
            self._uncached_members[of.type_text] = members
            return members
        opened = types.open(str(entry.shared_object))[int(entry.module) :]
        self._remember_class(zip(members, opened, strict=False))
        return ()

    def _remember_class(self, found: Iterable[tuple[Expression, Any]]) -> None:
        """Remember the calls that belong to a class, after replacing the types in them by the types' full names."""
        accepted = [(call, compiled) for call, compiled in found if compiled is not None]
        names = _names_of_types(accepted)
        self._seen_classes.update(names.values())
        for call, compiled in accepted:
            if (full := call.with_types(names)) not in self._known:
                self._remember(full, compiled)

    def _compile_with_characters(self, types: Any, missing: Sequence[Expression]) -> bool:
        """Compile rejected calls again with each str as a ``const char*``. Return whether C++ accepts that."""
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
        members: tuple[Expression, ...],
    ) -> None:
        for call in missing:
            if call in self._rejected:
                raise ArgumentError(self._rejected[call])
        optional = [*also, *members]
        plan = CallsPlan(
            self._prepared, missing[0], [*missing, *optional], optional=len(optional), origins=self._origins
        )
        try:
            entry = self._loader.find_or_build(plan)
        except CompileError as error:
            if self._compile_with_characters(types, missing):
                return
            rejected = next((call for call in missing if not call.is_optional), missing[0])
            text = self._rejected[rejected] = refusal(rejected, error, self._prepared.declarations)
            raise ArgumentError(text) from error
        if plan.compiled is not None and len(plan.compiled) > len(missing):
            try:
                types.open(str(entry.shared_object))
            except ImportError:  # a member is declared, but no library defines it
                plan = CallsPlan(self._prepared, missing[0], missing, origins=self._origins)
                entry = self._loader.find_or_build(plan, replacing=entry)
        shared = entry.shared_object
        opened = _open(types, entry, missing[0])
        if plan.compiled is None:  # another process has compiled the unit
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
        if of is not None and members:
            first += len(also)
            self._remember_class(zip(members, opened[first:], strict=True))
            self._loader.find_or_build(ClassPlan(self._prepared, of.type_text, members, shared=(shared, first)))


def _open(types: Any, entry: Entry, call: Expression) -> list[Any]:
    """Load the calls of a unit.

    Raises
    ------
    ArgumentError
        If a call needs a symbol that no library defines.
    """
    try:
        opened: list[Any] = types.open(str(entry.shared_object))
    except ImportError as error:
        raise ArgumentError(f"{call}: it compiles but cannot be loaded: {error}") from None
    return opened


def _names_of_types(found: Iterable[tuple[Expression, Any]]) -> dict[str, str]:
    """Map each ``makes`` of a call to the full name of the type that the call returns."""
    return {call.makes: compiled.result_name for call, compiled in found if call.makes and compiled is not None}
