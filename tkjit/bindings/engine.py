"""The engine of a bound library: it compiles calls, and describes and converts their arguments."""

from __future__ import annotations

import atexit
import operator
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from types import ModuleType
from typing import Any

from tkjit.bindings.arguments import in_order, prepare
from tkjit.bindings.compiled_calls import ClassOf, CompiledCalls, Unit
from tkjit.bindings.cpp_types import template_arguments
from tkjit.bindings.declarations import Declarations, without_arguments
from tkjit.bindings.deferred import defer
from tkjit.bindings.expressions import Argument, Expression
from tkjit.bindings.header_set import HeaderSet
from tkjit.bindings.prepared import PreparedHeaders
from tkjit.bindings.runtime import runtime
from tkjit.config import Settings
from tkjit.errors import ArgumentError
from tkjit.loader import loader_for
from tkjit.system.fork_safe import ForkSafeLock, cached_property


class Engine:
    """Compiles the calls for one set of headers, and knows the types that appear in them.

    Parameters
    ----------
    make_class : callable
        Makes the Python class of a C++ type. Its arguments are the type's number in this process, its name, and its
        ``Form`` and ``Protocol``, which bind.h defines.
    start, stop : str
        C++ functions. ``start`` is called before the first call, and ``stop`` is called at exit.
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
        self._prepared = PreparedHeaders(headers, self._loader)
        self._calls = CompiledCalls(self._prepared, self._loader)
        self._make_class = make_class
        self._hooks = [_hook(name) if name else None for name in (start, stop)]
        self._adapters: dict[str, Callable[[Any], Any]] = {}  # by type or template, converts an object to Python
        self._converters: dict[type, Callable[[Any], Any]] = {}
        self._is_converting: ContextVar[bool] = ContextVar("is_converting", default=False)
        self._made: set[str] = set()  # types that already have objects
        self._starting = ForkSafeLock()
        self._has_started = False

    @cached_property
    def runtime(self) -> ModuleType:
        """The module that owns the objects."""
        return runtime()

    @property
    def declarations(self) -> Declarations:
        return self._prepared.declarations

    def members(self, type_text: str) -> list[str]:
        """Return the completions that libclang offers for ``object.``; see ``PreparedHeaders.members``."""
        return self._prepared.members(type_text)

    @cached_property
    def types(self) -> Any:
        """The types and objects of this library."""
        return self.runtime.Types(self._on_new_type)

    # ---- adapters

    def adapt(
        self, name: str, to_python: Callable[[Any], Any] | None, from_python: dict[type, Callable[[Any], Any]]
    ) -> None:
        """See ``Library.adapt``."""
        if to_python is not None:
            if any(name in (made, without_arguments(made)) for made in self._made):
                raise ArgumentError(f"{name}: an object of this type already exists; call adapt before making one")
            self._adapters[name] = to_python
        self._converters |= from_python

    def _on_new_type(self, number: int, name: str, form: int, protocols: int) -> type:
        """Make a type's Python class, just before its first object is created."""
        self._made.add(name)
        adapter = self._adapters.get(name) or self._adapters.get(without_arguments(name))
        if adapter is not None:
            self.types.adapt(number, adapter)
        return self._make_class(number, name, form, protocols)

    # ---- callables

    def function(self, form: str, name: str, overloads: Sequence[dict[str, Any]] = (), **options: Any) -> Any:
        """Return a callable that evaluates a C++ expression on its arguments.

        Parameters
        ----------
        form : str
            See ``Expression``.
        overloads : sequence of dict
            The declared overloads. Their parameter names make calls with keywords possible.
        options
            Options of the runtime's ``Function``: ``brief``, ``invalidates``, ``owns_results``.
        """
        miss = self.on_miss(form, name, overloads)
        return self.runtime.Function(name, miss, options.pop("doc", None), **options)

    def method(self, form: str, name: str, overloads: Sequence[dict[str, Any]] = (), **options: Any) -> Any:
        """Like ``function``, but return a method."""
        miss = self.on_miss(form, name, overloads, 1)
        return self.runtime.Method(name, miss, options.pop("doc", None), **options)

    def on_miss(
        self, form: str, name: str, overloads: Sequence[dict[str, Any]] = (), own: int = 0
    ) -> Callable[..., Any]:
        """Return the function that the runtime calls if nothing is compiled yet for the types of a call's arguments."""

        def miss(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            prepared = self.prepare(name, overloads, args, kwargs, own)
            if prepared is not args:
                return function(*prepared)
            if (deferred := defer(self, form, name, args, function)) is not None:
                return deferred
            types, arguments = self.describe(name, args)
            (compiled,) = self.compile([Expression(form, arguments, name)])
            function.add(types, compiled)
            return function(*args)

        return miss

    def on_templated_miss(
        self, form_with: Callable[[str], str], name: str, overloads: Sequence[dict[str, Any]] = (), own: int = 0
    ) -> Callable[..., Any]:
        """Like ``on_miss``, but calls may also pass ``template_args=`` (for a template) and ``take_ownership=``.

        Parameters
        ----------
        form_with : callable
            Takes the text of template arguments, ``<int, 3>`` or an empty text for none, and returns the expression.
        """
        plain = self.on_miss(form_with(""), name, overloads, own)
        special: dict[tuple[str, bool], Any] = {}

        def miss(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            given, takes = kwargs.pop("template_args", ()), kwargs.pop("take_ownership", False)
            if not given and not takes:
                return plain(function, args, kwargs)
            text = template_arguments(tuple(given) if isinstance(given, (list, tuple)) else (given,)) if given else ""
            if (text, takes) not in special:
                with_text = self.on_miss(form_with(text), name, overloads, own)
                special[text, takes] = self.runtime.Function(name, with_text, None, owns_results=takes)
            return special[text, takes](*args, **kwargs)

        return miss

    def prepare(
        self,
        name: str,
        overloads: Sequence[dict[str, Any]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        own: int = 0,
    ) -> tuple[Any, ...]:
        """Convert arguments to values for which C++ has types. Return the same tuple if nothing has to be converted.

        Parameters
        ----------
        own : int
            How many arguments come before the overloads' parameters: 1 for a method, which takes its object first.
        """
        if kwargs:
            args = (*args[:own], *in_order(name, overloads, args[own:], kwargs, self.constant))
        adapted = tuple(map(self._adapted, args)) if self._converters else args
        return prepare(name, args if all(map(operator.is_, args, adapted)) else adapted)

    def _adapted(self, value: Any) -> Any:
        convert = next((self._converters[of] for of in type(value).__mro__ if of in self._converters), None)
        if convert is None or self._is_converting.get():
            return value  # do not convert the arguments of calls that a converter itself makes
        token = self._is_converting.set(True)
        try:
            converted = convert(value)
        finally:
            self._is_converting.reset(token)
        return value if converted is NotImplemented else converted

    def constant(self, expression: str, make: Callable[[], Any] | None = None) -> Any:
        """Return an argument that C++ creates each time a call needs it.

        Parameters
        ----------
        expression : str
            The C++ expression: ``thrust::plus<int>()``.
        make : callable
            Makes a bound object from the expression, in case Python needs one.
        """
        constant = self.runtime.constant(self._constant_class, self.types, expression)
        constant._make = make
        return constant

    @cached_property
    def _constant_class(self) -> type:
        def look(this: Any) -> Any:
            if this._made is None:
                this._made = this._make()
            return this._made

        def get(this: Any, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return getattr(look(this), name)

        return type(
            "Constant",
            (self.runtime.Marked,),
            {
                "_made": None,
                "__call__": lambda this, *args: look(this)(*args),
                "__getattr__": get,
                "__repr__": lambda this: repr(look(this)),
            },
        )

    def call(self, compiled: Any, *args: Any) -> Any:
        """Make a compiled call once."""
        function = self.runtime.Function("once", None)
        function.add(tuple(one[0] for one in self.types.describe(args)), compiled)
        return function(*args)

    def compile(
        self, calls: Sequence[Expression], of: ClassOf | None = None, also: Sequence[Expression] = ()
    ) -> list[Any]:
        """Return compiled calls, with None for each optional call that does not compile; see ``CompiledCalls.get``."""
        of = of or self._class_of(calls[0])
        found = self._calls.get(self.types, calls, of, lambda: [*also, *filter(None, self._hooks)])
        self._start_once()
        return found

    @staticmethod
    def _class_of(call: Expression) -> ClassOf | None:
        is_member = call.is_of_member and call.arguments[0].how in ("object", "const")
        return ClassOf(call.arguments[0].type) if is_member else None

    def is_kept(self, call: Expression, of: ClassOf | None = None) -> bool:
        """Return whether a call can be made without compiling."""
        return self._calls.is_kept(self.types, call, of or self._class_of(call))

    def compile_batch(self, calls: Sequence[Expression], classes: Iterable[ClassOf]) -> Unit | None:
        """Compile calls that take each other's results; see ``CompiledCalls.compile_batch``."""
        hooks = tuple(filter(None, self._hooks))
        unit = self._calls.compile_batch(self.types, calls, classes, hooks)
        self._start_once()
        return unit

    def describe(self, name: str, args: tuple[Any, ...]) -> tuple[tuple[int, ...], tuple[Argument, ...]]:
        """Return the arguments' types, first as numbers and then as ``Argument``.

        Raises
        ------
        ArgumentError
            If C++ has no type for an argument.
        """
        described = self.types.describe(args)
        for position, one in enumerate(described):
            if one is None:
                kind = type(args[position]).__name__
                hint = "; write the function in C++ (source=) and pass that" if callable(args[position]) else ""
                raise ArgumentError(
                    f"{name}: argument {position + 1} has the type {kind}, which cannot be passed to C++{hint}"
                )
            if one[1] == "foreign":
                problem = f"argument {position + 1} is a {one[2]} of another bound library"
                raise ArgumentError(f"{name}: {problem}; create it with this library instead")
        return tuple(one[0] for one in described), tuple(Argument(one[1], one[2]) for one in described)

    def is_array(self, value: Any) -> bool:
        described = self.types.describe((value,))[0]
        return described is not None and described[1].endswith("array")

    # ---- hooks

    def _start_once(self) -> None:
        """Call the start hook before the first call is made. Both hooks were compiled together with that call."""
        if self._has_started:
            return
        with self._starting:  # other threads wait until the hook has returned
            if not self._has_started:
                self._start()
                self._has_started = True

    def _start(self) -> None:
        start, stop = self._hooks
        functions = {}
        calls = [hook for hook in (start, stop) if hook is not None]
        for call, compiled in zip(calls, self._calls.get(self.types, calls) if calls else (), strict=True):
            functions[call] = self.runtime.Function(call.name, None)
            functions[call].add((), compiled)
        if start is not None:
            functions[start]()
        if stop is not None:
            atexit.register(self._stop, self.types, functions[stop])

    @staticmethod
    def _stop(types: Any, hook: Callable[[], Any]) -> None:
        types.destroy_objects()
        hook()
        types.close()


def _hook(name: str) -> Expression:
    call = name if name.endswith(")") else f"{name}()"
    return Expression(f"void({call})", (), name)
