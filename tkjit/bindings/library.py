"""What a user of bound headers holds: namespaces, functions, templates and types."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any, NamedTuple

from tkjit.bindings.arguments import prepare
from tkjit.bindings.classes import make_class
from tkjit.bindings.companions import companions_of
from tkjit.bindings.declarations import Declared
from tkjit.bindings.engine import Engine
from tkjit.bindings.expressions import Expression
from tkjit.bindings.forms import constructor, from_buffer
from tkjit.bindings.header_set import HeaderSet
from tkjit.bindings.spelling import template_arguments
from tkjit.config import Settings
from tkjit.errors import ArgumentError
from tkjit.system.fork_safe import cached_property


class Namespace:
    """The names of a C++ namespace, or of several."""

    def __init__(self, library: Library, paths: tuple[str, ...]) -> None:
        self._library = library
        self._paths = paths

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = self._find(name)
        if isinstance(found, Variable):
            return found.read()
        setattr(self, name, found)
        return found

    def _find(self, name: str) -> Any:
        declarations = self._library.engine.declarations
        for path in self._paths:
            if (declared := declarations.find(path, name)) is not None:
                return self._library.wrap(declared)
        inner = tuple(
            nested for path in self._paths if declarations.has_namespace(nested := f"{path}::{name}" if path else name)
        )
        if inner:
            return Namespace(self._library, inner)
        whole = tuple(path for path in self._paths if path.rpartition("::")[2] == name)
        if whole:
            return Namespace(self._library, whole)
        near = difflib.get_close_matches(name, dir(self), 3)
        hint = f"; is it {' or '.join(near)}?" if near else ""
        raise AttributeError(f"no {name} in {self}{hint}")

    def __dir__(self) -> list[str]:
        declarations = self._library.engine.declarations
        return sorted({name for path in self._paths for name in declarations.names(path)})

    def __repr__(self) -> str:
        return f"<C++ namespace {', '.join(self._paths) or '::'}>"


class Library(Namespace):
    """Bound headers. See ``tkjit.bind``."""

    def __init__(self, headers: HeaderSet, settings: Settings, start: str = "", stop: str = "") -> None:
        self.engine: Engine = Engine(headers, settings, lambda *facts: make_class(self.engine, *facts), start, stop)
        super().__init__(self, headers.namespaces or ("",))

    def cpp(self, text: str) -> BoundType:
        """The type that C++ text names, also a number's: ``cpp("int")(3)`` can be passed as ``int&``."""
        return BoundType(self, text)

    def wrap(self, declared: Declared) -> Any:
        """A declared name as Python sees it."""
        if declared.kind == "function":
            return BoundFunction(self, declared)
        if declared.kind == "class template":
            return Template(self, declared)
        if declared.kind in ("class", "alias"):
            return BoundType(self, declared.text, declared)
        if declared.kind == "enum":
            return Enumeration(self, declared)
        return Variable(self.engine.function(f"tkjit::bind::value(({declared.text}))", declared.qualified))


class Variable(NamedTuple):
    """A variable of a namespace: each time it is asked for it is read."""

    read: Callable[[], Any]


class BoundFunction:
    """A C++ function with all its overloads, or a template of one."""

    def __init__(self, library: Library, declared: Declared) -> None:
        self._library = library
        self._declared = declared
        self.__name__ = declared.name
        self.__qualname__ = declared.qualified
        self.__doc__ = "\n".join([*declared.signatures, "", str(declared.facts.get("doc", ""))]).strip()
        self._plain = self._make("")
        self._special: dict[tuple[str, bool], Any] = {}

    def __call__(self, *args: Any, template_args: Any = (), take_ownership: bool = False, **kwargs: Any) -> Any:
        if kwargs:
            args = _in_order(self._declared, args, kwargs)
        if not template_args and not take_ownership:
            return self._plain(*args)
        given = template_args if isinstance(template_args, (list, tuple)) else [template_args]
        key = (template_arguments(tuple(given)) if template_args else "", take_ownership)
        if key not in self._special:
            self._special[key] = self._make(*key)
        return self._special[key](*args)

    def _make(self, arguments: str, owns_results: bool = False) -> Any:
        declared = self._declared
        form = f"{declared.text}{arguments}({{*}})"
        return self._library.engine.function(form, declared.qualified, doc=self.__doc__, owns_results=owns_results)

    @property
    def __cpp__(self) -> str:
        return self._declared.text

    def __repr__(self) -> str:
        return f"<C++ function {self._declared.qualified}>"


def _in_order(declared: Declared, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Arguments by position, where an overload has parameters of the keywords' names."""
    for overload in declared.facts.get("overloads", []):
        names = [parameter for parameter, _, _ in overload["parameters"]]
        rest = names[len(args) : len(args) + len(kwargs)]
        if set(rest) == set(kwargs) and len(rest) == len(kwargs):
            return (*args, *(kwargs[name] for name in rest))
    known = "; ".join(declared.signatures[:6])
    raise ArgumentError(
        f"{declared.qualified}: no overload takes {', '.join(kwargs)} behind {len(args)} arguments: {known}"
    )


class Template:
    """A class template: called with template arguments it is a type."""

    def __init__(self, library: Library, declared: Declared) -> None:
        self._library = library
        self._declared = declared
        self._types: dict[str, BoundType] = {}
        self.__name__ = declared.name
        self.__doc__ = str(declared.facts.get("doc", "")) or None

    def __call__(self, *args: Any) -> BoundType:
        text = f"{self._declared.text}{template_arguments(args)}"
        if text not in self._types:
            self._types[text] = BoundType(self._library, text, self._declared, args)
        return self._types[text]

    @property
    def __cpp__(self) -> str:
        return self._declared.text

    def __repr__(self) -> str:
        return f"<C++ class template {self._declared.qualified}>"


class BoundType:
    """A C++ type: called with the arguments of a constructor it is an object."""

    def __init__(self, library: Library, text: str, declared: Declared | None = None, arguments: Any = ()) -> None:
        self._library = library
        self._arguments = arguments
        self.__cpp__ = text
        self.__name__ = text.removeprefix("::")
        self.__doc__ = (str(declared.facts.get("doc", "")) if declared else "") or None
        self._construct = library.engine.runtime.Function(self.__name__, self._on_construct, self.__doc__)
        self._class: Any = None

    def __call__(self, *args: Any) -> Any:
        if not args and self._holds_nothing:
            return self._library.engine.constant(self.__cpp__, self._construct)
        made = self._construct(*args)
        if self._class is None:
            self._class = type(made)
        return made

    def _on_construct(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if kwargs:
            raise ArgumentError(f"{self.__name__}: a constructor takes no keywords")
        args = prepare(self.__name__, args)
        engine = self._library.engine
        types, given = engine.describe(self.__name__, args)
        from_array = len(args) == 1 and given[0].how.endswith("array")
        form = from_buffer(self.__cpp__) if from_array else constructor(self.__cpp__)
        if self._class is None:
            companions = companions_of(self.__cpp__, self._arguments, engine.declarations.members(self.__name__))
            if companions:
                engine.compile_class(self.__cpp__, companions)
        (compiled,) = engine.compile([Expression(form, given, self.__name__)])
        function.add(types, compiled)
        return function(*args)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = self._static_member(name)
        setattr(self, name, found)
        return found

    def _static_member(self, name: str) -> Any:
        members = self._library.engine.declarations.members(self.__name__)
        facts = members.get(name)
        if facts is not None and facts.get("access"):
            raise AttributeError(f"{self.__name__}::{name} is {facts['access']}")
        text = f"{self.__cpp__}::{name}"
        if facts is not None and facts["kind"] == "type":
            return BoundType(self._library, f"typename {text}" if "<" in text else text)
        function = self._library.engine.function(f"{text}({{*}})", text.removeprefix("::"), doc=facts and facts["doc"])
        if facts is not None and facts["kind"] == "method":
            return function
        read = Expression(f"tkjit::bind::constant({text})", (), text.removeprefix("::"), is_optional=facts is None)
        (compiled,) = self._library.engine.compile([read])
        if compiled is None:
            return function
        return self._library.engine.call(compiled)

    @cached_property
    def _holds_nothing(self) -> bool:
        """Whether it is known to have no state, as function objects have none."""
        declared = self._library.engine.declarations.class_of(self.__name__)
        return declared is not None and bool(declared.facts.get("holds_nothing"))

    def __instancecheck__(self, instance: Any) -> bool:
        return self._class is not None and isinstance(instance, self._class)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundType) and self.__cpp__ == other.__cpp__ and self._library is other._library

    def __hash__(self) -> int:
        return hash(self.__cpp__)

    def __repr__(self) -> str:
        return f"<C++ type {self.__name__}>"


class Enumeration:
    """A C++ enumeration: its values are attributes."""

    def __init__(self, library: Library, declared: Declared) -> None:
        self._declared = declared
        self.__name__ = declared.name
        self.__doc__ = str(declared.facts.get("doc", "")) or None
        self.__cpp__ = declared.text
        form = f"static_cast<{declared.text}>({{0}})"
        self._make = library.engine.function(form, declared.qualified)
        self._values: dict[str, int] = declared.facts["values"]

    def __call__(self, value: int) -> Any:
        return self._make(int(value))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._values:
            near = difflib.get_close_matches(name, self._values, 3)
            raise AttributeError(f"{self.__name__} has no {name}" + (f"; is it {' or '.join(near)}?" if near else ""))
        made = self(self._values[name])
        setattr(self, name, made)
        return made

    def __dir__(self) -> list[str]:
        return sorted(self._values)

    def __repr__(self) -> str:
        return f"<C++ enumeration {self._declared.qualified}>"
