"""The objects with which users of bound headers work: namespaces, functions, templates and types."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

from tkjit.bindings.classes import make_class
from tkjit.bindings.compiled_calls import ClassOf
from tkjit.bindings.cpp_types import template_arguments
from tkjit.bindings.declarations import Declared
from tkjit.bindings.deferred import Deferred, defer
from tkjit.bindings.engine import Engine
from tkjit.bindings.expressions import Expression, constructor, from_buffer
from tkjit.bindings.header_set import HeaderSet
from tkjit.bindings.numbers import Enumeration
from tkjit.config import Settings
from tkjit.errors import ArgumentError
from tkjit.system.fork_safe import cached_property

_NOT_ARRAY_ELEMENTS = (str, list, tuple)


class Namespace:
    """One or more C++ namespaces. The names that they contain are attributes."""

    def __init__(self, library: Library, paths: tuple[str, ...]) -> None:
        self._library = library
        self._paths = paths

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = self._find(name)
        if isinstance(found, Variable):
            return found.read()
        self.__dict__[name] = found
        return found

    def __getitem__(self, name: str) -> Any:
        """Return a C++ name, even if a Python method hides it: ``library["adapt"]``."""
        found = self._find(name)
        return found.read() if isinstance(found, Variable) else found

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
            return
        found = self._find(name)
        if not isinstance(found, Variable):
            raise AttributeError(f"{name} in {self} is not a variable; only variables can be set")
        found.write(value)

    def _find(self, name: str) -> Any:
        declarations = self._library._engine.declarations
        for path in self._paths:
            if (declared := declarations.find(path, name)) is not None:
                return self._library._wrap(declared)
        inner = tuple(
            nested for path in self._paths if declarations.has_namespace(nested := f"{path}::{name}" if path else name)
        )
        if inner:
            return Namespace(self._library, inner)
        own = tuple(path for path in self._paths if path.rpartition("::")[2] == name)
        if own:
            return Namespace(self._library, own)
        near = difflib.get_close_matches(name, dir(self), 3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise AttributeError(f"no {name} in {self}{hint}")

    def __dir__(self) -> list[str]:
        declarations = self._library._engine.declarations
        return sorted({name for path in self._paths for name in declarations.names(path)})

    def __repr__(self) -> str:
        return f"<C++ namespace {', '.join(self._paths) or '::'}>"


class Library(Namespace):
    """Bound headers; see ``tkjit.bind``."""

    def __init__(self, headers: HeaderSet, settings: Settings, start: str = "", stop: str = "") -> None:
        self._engine: Engine = Engine(headers, settings, lambda *facts: make_class(self._engine, *facts), start, stop)
        super().__init__(self, headers.namespaces or ("",))

    def cpp(self, text: str) -> BoundType:
        """Return the type with this C++ name, even a type of numbers: ``cpp("int")(3)`` can be passed as ``int&``."""
        return BoundType(self, text)

    def adapt(
        self,
        cpp: str | BoundType | Template,
        *,
        to_python: Callable[[Any], Any] | None = None,
        from_python: Mapping[type, Callable[[Any], Any]] | None = None,
    ) -> None:
        """Convert results of a C++ type to Python values, or Python values to arguments of that type.

        Parameters
        ----------
        cpp : str, BoundType or Template
            A type, or a template (``"Kokkos::View"``) to adapt all its types.
        to_python : callable
            Takes a result, which is an object of the type, and returns the Python value. Constructors still return
            objects.
        from_python : mapping of type to callable
            Maps a Python class to a function that converts a value of this class to an argument. If the function
            returns NotImplemented, the value is passed unchanged.

        Raises
        ------
        ArgumentError
            If an object of the type has already been made.

        Examples
        --------
        For a Kokkos library ``kk``, return views as NumPy arrays that share their memory and layout::

            kk.adapt(kk.View, to_python=numpy.asarray)
        """
        name = (cpp if isinstance(cpp, str) else cpp.__cpp__).removeprefix("::")
        self._engine.adapt(name, to_python, dict(from_python or {}))

    def _wrap(self, declared: Declared) -> Any:
        """Wrap a declared name for Python."""
        if declared.kind == "function":
            return BoundFunction.make(self, declared)
        if declared.kind == "class template":
            return Template(self, declared)
        if declared.kind in ("class", "alias"):
            return BoundType(self, declared.text, declared)
        if declared.kind == "enum":
            return Enumeration(self._engine, declared)
        return self._variable(declared.text)

    def _variable(self, text: str) -> Variable:
        """Wrap a variable of a namespace or a class."""
        name = text.removeprefix("::")
        read = self._engine.function(f"tkjit::bind::value(({text}))", name)
        return Variable(read, self._engine.function(f"void({text} = {{0}})", f"{name} ="))


def engine_of(library: Library) -> Engine:
    """Return a library's engine. It is not a public attribute, because any attribute may be a C++ name."""
    return library._engine


class Variable(NamedTuple):
    """A variable of a namespace or a class. Each access in Python reads the C++ variable again."""

    read: Callable[[], Any]
    write: Callable[[Any], None]


class BoundFunction:
    """A C++ function with all its overloads, or a function template. The runtime's ``Function`` makes the calls."""

    _library: Library
    _declared: Declared

    @staticmethod
    def make(library: Library, declared: Declared) -> Any:
        engine = library._engine
        documentation = "\n".join([*declared.signatures, "", str(declared.facts.get("doc", ""))]).strip()
        miss = engine.on_templated_miss(
            lambda arguments: f"{declared.text}{arguments}({{*}})", declared.qualified, declared.overloads
        )
        function: Any = _function_class(engine.runtime)(declared.name, miss, documentation)
        function._library, function._declared = library, declared
        function.__qualname__ = declared.qualified
        return function

    def __tkjit_argument__(self) -> Any:
        """Return the function as an argument: a pointer to it, or a closure that calls the matching overload."""
        return self._library._engine.constant(self._address)

    @property
    def _address(self) -> str:
        text, overloads = self._declared.text, self._declared.overloads
        if len(overloads) == 1 and "template" not in overloads[0]:
            return f"&{text}"
        call = f"{text}(static_cast<decltype(a)&&>(a)...)"
        return f"[](auto&&... a) -> decltype(auto) {{ return {call}; }}"

    @property
    def __cpp__(self) -> str:
        return self._declared.text

    def __repr__(self) -> str:
        return f"<C++ function {self._declared.qualified}>"


@cache
def _function_class(runtime: ModuleType) -> type:
    """Return the class of bound functions. It inherits ``__call__`` from the runtime, so a call runs no Python code."""
    return type("BoundFunction", (runtime.Function, BoundFunction), {"__repr__": BoundFunction.__repr__})


class Template:
    """A class template. Calling it with template arguments returns a type."""

    def __init__(self, library: Library, declared: Declared) -> None:
        self._library = library
        self._declared = declared
        self._types: dict[str, BoundType] = {}
        self._of_classes: dict[tuple[Any, ...], BoundType] = {}  # by arguments that are all Python classes
        self.__name__ = declared.name
        self.__doc__ = str(declared.facts.get("doc", "")) or None

    def __call__(self, *args: Any) -> BoundType:
        try:
            known = self._of_classes.get(args)
        except TypeError:  # a list is not hashable
            known = None
        return known if known is not None else self._instantiate(args)

    def _instantiate(self, args: tuple[Any, ...]) -> BoundType:
        text = f"{self._declared.text}{template_arguments(args)}"
        if text not in self._types:
            self._types[text] = BoundType(self._library, text, self._declared, args)
        if all(isinstance(one, type) for one in args):
            self._of_classes[args] = self._types[text]
        return self._types[text]

    @property
    def __cpp__(self) -> str:
        return self._declared.text

    def __repr__(self) -> str:
        return f"<C++ class template {self._declared.qualified}>"


class BoundType:
    """A C++ type. Calling it with constructor arguments creates an object."""

    def __init__(self, library: Library, text: str, declared: Declared | None = None, arguments: Any = ()) -> None:
        self._library = library
        self._arguments = arguments
        self.__cpp__ = text
        self.__name__ = text.removeprefix("::")
        self.__doc__ = (str(declared.facts.get("doc", "")) if declared else "") or None
        make_function = library._engine.runtime.Function
        self._construct = make_function(self.__name__, self._on_construct, self.__doc__, constructor=True)
        self._class: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not args and not kwargs and self._holds_nothing:
            return self._library._engine.constant(f"{self.__cpp__}()", self._construct)
        if len(args) == 1 and isinstance(args[0], list) and args[0] and isinstance(args[0][0], _NOT_ARRAY_ELEMENTS):
            return self._from_elements(args[0])
        created = self._construct(*args, **kwargs)
        if self._class is None and not isinstance(created, Deferred):
            self._class = type(created)
        return created

    def _from_elements(self, values: list[Any]) -> Any:
        """Make a container from values that a NumPy array cannot hold."""
        container = self()
        for value in values:
            container.push_back(value)
        return container

    def _on_construct(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        engine = self._library._engine
        prepared = engine.prepare(self.__name__, self._constructors, args, kwargs)
        if prepared is not args:
            return function(*prepared)
        of = ClassOf(self.__cpp__, self._arguments)
        from_array = len(args) == 1 and engine.is_array(args[0])
        braces = bool(args) and self._is_aggregate
        form = from_buffer(self.__cpp__) if from_array else constructor(self.__cpp__, is_aggregate=braces)
        if (deferred := defer(engine, form, self.__name__, args, function, of)) is not None:
            return deferred
        types, arguments = engine.describe(self.__name__, args)
        try:
            (compiled,) = engine.compile([Expression(form, arguments, self.__name__)], of)
        except ArgumentError as error:
            if self._is_declared or from_array or not args:
                raise
            # the type was given as C++ text, so it may be an aggregate
            form = constructor(self.__cpp__, is_aggregate=True)
            try:
                (compiled,) = engine.compile([Expression(form, arguments, self.__name__)], of)
            except ArgumentError:
                raise error from None
        function.add(types, compiled)
        return function(*args)

    @property
    def _is_declared(self) -> bool:
        return self._library._engine.declarations.class_of(self.__name__) is not None

    @property
    def _own_members(self) -> dict[str, Any]:
        declared = self._library._engine.declarations.class_of(self.__name__)
        return declared.facts["members"] if declared is not None else {}

    @property
    def _constructors(self) -> list[dict[str, Any]]:
        """The declared constructors. An aggregate has a single constructor, whose parameters are its fields."""
        if self._is_aggregate:
            fields = [name for name, facts in self._own_members.items() if facts["kind"] == "field"]
            return [{"parameters": [[name, "", "{}"] for name in fields]}]
        found = [facts["overloads"] for facts in self._own_members.values() if facts["kind"] == "constructor"]
        return [overload for overloads in found for overload in overloads]

    @cached_property
    def _is_aggregate(self) -> bool:
        """Whether the type has fields, all of them public, but no constructors and no bases."""
        kinds = [facts["kind"] for facts in self._own_members.values()]
        declared = self._library._engine.declarations.class_of(self.__name__)
        is_hidden = any(facts.get("access") for facts in self._own_members.values())
        has_bases = declared is not None and bool(declared.facts["bases"])
        return "field" in kinds and not ("constructor" in kinds or is_hidden or has_bases)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = self._static_member(name)
        if isinstance(found, Variable):
            return found.read()
        self.__dict__[name] = found
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
            return
        found = self._static_member(name)
        if not isinstance(found, Variable):
            raise AttributeError(f"{self.__name__}::{name} is not a static field; only static fields can be set")
        found.write(value)

    def _static_member(self, name: str) -> Any:
        members = self._library._engine.declarations.members(self.__name__)
        facts = members.get(name)
        if facts is not None and facts.get("access"):
            raise AttributeError(f"{self.__name__}::{name} is {facts['access']}")
        text = f"{self.__cpp__}::{name}"
        if facts is not None and "values" in facts:
            return Enumeration(self._library._engine, Declared(self.__name__, name, facts))
        if facts is not None and facts["kind"] == "type":
            return BoundType(self._library, f"typename {text}" if "<" in text else text)
        engine, name = self._library._engine, text.removeprefix("::")
        miss = engine.on_templated_miss(lambda arguments: f"{text}{arguments}({{*}})", name)
        function = engine.runtime.Function(name, miss, facts and facts["doc"])
        if facts is not None and facts["kind"] == "method":
            return function
        if facts is not None and facts["kind"] == "static field":
            return self._library._variable(text)
        # No declaration shows this member, so it belongs to a base. Try to compile it as a constant; if that fails, it
        # is a function.
        try:
            (compiled,) = engine.compile([Expression(f"tkjit::bind::constant({text})", (), name)])
        except ArgumentError:
            return function
        return engine.call(compiled)

    @cached_property
    def _holds_nothing(self) -> bool:
        """Whether the type is known to be a stateless function object."""
        declared = self._library._engine.declarations.class_of(self.__name__)
        if declared is None or not declared.facts.get("holds_nothing"):
            return False
        return "operator()" in self._library._engine.declarations.members(self.__name__)

    def __instancecheck__(self, instance: Any) -> bool:
        return self._class is not None and isinstance(instance, self._class)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundType) and self.__cpp__ == other.__cpp__ and self._library is other._library

    def __hash__(self) -> int:
        return hash(self.__cpp__)

    def __repr__(self) -> str:
        return f"<C++ type {self.__name__}>"
