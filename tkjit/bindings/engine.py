"""Compiles the calls of a library of bindings, and keeps them."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from tkjit.bindings.arguments import prepare
from tkjit.bindings.declarations import Declarations
from tkjit.bindings.expressions import Expression, Given
from tkjit.bindings.header_set import HeaderSet
from tkjit.bindings.keywords import in_order
from tkjit.bindings.plans import (
    BindingsPlan,
    CallsPlan,
    ClassPlan,
    DeclarationsPlan,
    LibrariesPlan,
    PrecompiledHeaderPlan,
)
from tkjit.bindings.refusals import refusal
from tkjit.cache import Entry
from tkjit.config import Settings
from tkjit.errors import ArgumentError, CompileError, CppError, ToolchainError
from tkjit.loader import loader_for
from tkjit.loader.plan import Opened, Plan
from tkjit.system.fork_safe import cached_property


class Engine:
    """The compiled calls of one set of headers, and the types that they have brought.

    Parameters
    ----------
    make_class : callable
        Makes the Python class of a C++ type: by its number in this process, its name, bind.h's ``Form`` of its values,
        and bind.h's ``Protocol``.
    start, stop : str
        Functions that are called before the first call, and at exit.
    """

    def __init__(
        self,
        headers: HeaderSet,
        settings: Settings,
        make_class: Callable[[int, str, int, int], type],
        start: str = "",
        stop: str = "",
    ) -> None:
        self.headers = headers
        self._loader = loader_for(settings)
        self._make_class = make_class
        self._hooks = (start, stop)
        self._compiled: dict[Expression, Any] = {}
        self._refused: dict[Expression, str] = {}

    @cached_property
    def runtime(self) -> ModuleType:
        """The module that owns the objects."""
        loaded: ModuleType = self._loader.open(BindingsPlan(self._loader.env)).loaded
        loaded.set_error(CppError)
        return loaded

    @cached_property
    def declarations(self) -> Declarations:
        return Declarations.read(self._declared.shared_object)

    @cached_property
    def _declared(self) -> Entry:
        plan = DeclarationsPlan(self._loader.env, self.headers, self._precompiled)
        try:
            return self._loader.find_or_build(plan)
        except CompileError as error:
            raise ToolchainError(f"bind: the headers do not compile: {error}") from None

    @cached_property
    def _digest(self) -> str:
        """What stands for the contents of the headers."""
        entries = [self._declared, *([self._linked.entry] if self._linked is not None else [])]
        return " ".join(f"{entry.directory.parent.name}/{entry.directory.name}" for entry in entries)

    @cached_property
    def _linked(self) -> Opened | None:
        """The libraries, loaded."""
        if not self.headers.link_flags:
            return None
        try:
            return self._loader.open(LibrariesPlan(self._loader.env, self.headers))
        except CompileError as error:
            raise ToolchainError(f"bind: the libraries cannot be linked: {error}") from None

    @property
    def _libraries(self) -> Path | None:
        return self._linked.loaded if self._linked is not None else None

    def _precompiled(self) -> Entry:
        return self._loader.find_or_build(PrecompiledHeaderPlan(self._loader.env, self.headers))

    @cached_property
    def types(self) -> Any:
        """The types and objects of this library."""
        types = self.runtime.Types(self._make_class)
        start, stop = self._hooks
        if start:
            self._call_hook(types, start)
        if stop:
            atexit.register(self._stop, types, stop)
        return types

    # ---- callables

    def function(self, form: str, name: str, overloads: Sequence[dict[str, Any]] = (), **options: Any) -> Any:
        """A callable for a C++ expression on its arguments.

        Parameters
        ----------
        form : str
            See ``Expression``.
        overloads : sequence of dict
            With the names of the parameters, for calls with keywords.
        options
            Of the runtime's ``Function``: ``brief``, ``invalidates``, ``owns_results``.
        """
        miss = self._on_miss(form, name, overloads, 0)
        return self.runtime.Function(name, miss, options.pop("doc", None), **options)

    def method(self, form: str, name: str, overloads: Sequence[dict[str, Any]] = (), **options: Any) -> Any:
        """The same as an attribute of a class."""
        miss = self._on_miss(form, name, overloads, 1)
        return self.runtime.Method(name, miss, options.pop("doc", None), **options)

    def _on_miss(self, form: str, name: str, overloads: Sequence[dict[str, Any]], own: int) -> Callable[..., Any]:
        def miss(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            prepared = self.prepare(name, overloads, args, kwargs, own)
            if prepared is not args:
                return function(*prepared)
            types, given = self.describe(name, args)
            (compiled,) = self.compile([Expression(form, given, name)])
            function.add(types, compiled)
            return function(*args)

        return miss

    def prepare(
        self,
        name: str,
        overloads: Sequence[dict[str, Any]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        own: int = 0,
    ) -> tuple[Any, ...]:
        """Arguments that C++ has types for; the same tuple where nothing had to be done.

        Parameters
        ----------
        own : int
            How many arguments stand before the parameters of the overloads: a method's object.
        """
        if kwargs:
            args = (*args[:own], *in_order(name, overloads, args[own:], kwargs, self.constant))
        return prepare(name, args)

    def constant(self, expression: str, make: Callable[[], Any] | None = None) -> Any:
        """An argument that C++ makes where a call needs it.

        Parameters
        ----------
        expression : str
            In C++: ``thrust::plus<int>()``.
        make : callable
            Makes a bound object of it, where Python wants to look at one.
        """
        made = self.runtime.constant(self._constant_class, self.types, expression)
        made.make = make
        return made

    @cached_property
    def _constant_class(self) -> type:
        def look(this: Any) -> Any:
            if this.made is None:
                this.made = this.make()
            return this.made

        def get(this: Any, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return getattr(look(this), name)

        return type(
            "Constant",
            (self.runtime.Marked,),
            {
                "made": None,
                "__call__": lambda this, *args: look(this)(*args),
                "__getattr__": get,
                "__repr__": lambda this: repr(look(this)),
            },
        )

    def call(self, compiled: Any, *args: Any) -> Any:
        """Make a compiled call, once."""
        function = self.runtime.Function("once", None)
        function.add(tuple(one[0] for one in self.types.describe(args)), compiled)
        return function(*args)

    # ---- compiling

    def compile(self, calls: Sequence[Expression]) -> list[Any]:
        """The compiled calls; None for an optional one that C++ does not have.

        Raises
        ------
        ArgumentError
            If the compiler refuses one that is not optional; with its reasons.
        """
        return self._compile(self.types, calls)

    def _compile(self, types: Any, calls: Sequence[Expression]) -> list[Any]:
        missing = [call for call in dict.fromkeys(calls) if not self._is_known(call)]
        for call in missing:
            if call in self._refused:
                raise ArgumentError(self._refused[call])
        if missing:
            try:
                plan = CallsPlan(
                    self._loader.env, self.headers, self._digest, missing, self._precompiled, self._libraries
                )
                opened = self._open(types, plan)
            except CompileError as error:
                text = self._refused[missing[0]] = refusal(missing[0], error, self.declarations)
                raise ArgumentError(text) from error
            self._compiled.update(zip(missing, opened, strict=True))
        return [self._compiled[call] for call in calls]

    def _is_known(self, call: Expression) -> bool:
        return self._compiled.get(call) is not None or (call.is_optional and call in self._compiled)

    def compile_class(self, type_text: str, calls: Sequence[Expression]) -> None:
        """Compile what is probably called on the objects of a class, as far as C++ has it.

        Raises
        ------
        ArgumentError
            If C++ has no such class.
        """
        plan = ClassPlan(
            self._loader.env, self.headers, self._digest, type_text, calls, self._precompiled, self._libraries
        )
        try:
            opened = self._open(self.types, plan)
        except CompileError as error:
            named = Expression(calls[0].form, (), type_text.removeprefix("::"))
            raise ArgumentError(refusal(named, error, self.declarations)) from error
        found = [(call, compiled) for call, compiled in zip(calls, opened, strict=False) if compiled is not None]
        names = {call.makes: compiled.result_name for call, compiled in found if call.makes}
        for call, compiled in found:
            self._compiled.setdefault(call.with_types(names), compiled)

    def _open(self, types: Any, plan: Plan) -> list[Any]:
        opened: list[Any] = types.open(str(self._loader.find_or_build(plan).shared_object))
        return opened

    def describe(self, name: str, args: tuple[Any, ...]) -> tuple[tuple[int, ...], tuple[Given, ...]]:
        """The numbers of the arguments' types, and the types.

        Raises
        ------
        ArgumentError
            If C++ has no type for one.
        """
        described = self.types.describe(args)
        for position, one in enumerate(described):
            if one is None:
                kind = type(args[position]).__name__
                hint = "; write it in C++, in source=, and pass that" if callable(args[position]) else ""
                raise ArgumentError(
                    f"{name}: argument {position + 1} is a {kind}, for which C++ has no type here{hint}"
                )
            if one[1] == "foreign":
                raise ArgumentError(f"{name}: argument {position + 1} is a {one[2]} of another library of bindings")
        return tuple(one[0] for one in described), tuple(Given(one[1], one[2]) for one in described)

    # ---- hooks

    def _call_hook(self, types: Any, hook: str) -> None:
        form = hook if hook.endswith(")") else f"{hook}()"
        (compiled,) = self._compile(types, [Expression(f"void({form})", (), hook)])
        function = self.runtime.Function(hook, None)
        function.add((), compiled)
        function()

    def _stop(self, types: Any, hook: str) -> None:
        types.destroy_objects()
        self._call_hook(types, hook)
        types.close()
