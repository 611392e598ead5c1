"""Makes the Python class for a C++ type, when the first object of that type appears."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from tkjit.bindings.declarations import signature
from tkjit.bindings.engine import Engine
from tkjit.bindings.expressions import COPY, PRINTED, Expression, data_member, method
from tkjit.bindings.numbers import enumeration_class, number_class
from tkjit.bindings.protocols import operators, protocols_of
from tkjit.errors import ArgumentError

# values of bind.h's Form
_OBJECT, _ENUMERATION = 8, 11

# The methods that invalidate references into the object.
INVALIDATING = frozenset(
    "assign clear emplace emplace_back erase insert operator= pop_back push_back reserve resize "
    "shrink_to_fit swap".split()
)


def make_class(engine: Engine, number: int, name: str, form: int, protocols: int) -> type:
    """Make the Python class for a C++ type.

    Parameters
    ----------
    number : int
        The type's number in this process.
    name : str
        The type's full name in C++.
    form : int
        The ``Form`` of the type's values, as a number; see bind.h.
    protocols : int
        The protocols that the type supports, as flags of bind.h's ``Protocol``.
    """
    base = engine.runtime.Object
    copy = engine.method(COPY, f"{name}: a copy")
    facts: dict[str, Any] = {"__slots__": (), "__cpp__": name, "__module__": "tkjit.bindings"}
    if form == _OBJECT:
        facts |= _members(engine, name) | operators(engine) | protocols_of(engine, protocols)
        facts |= {"__copy__": copy, "__deepcopy__": lambda this, memo: copy(this), "__str__": _printer(engine, name)}
    elif form == _ENUMERATION:
        facts |= enumeration_class(engine, name)
    else:
        facts |= number_class(engine, name)
    return type(name, (base,), facts)


def _members(engine: Engine, name: str) -> dict[str, Any]:
    declarations = engine.declarations
    known = declarations.members(name)
    declared = declarations.class_of(name)

    def __getattr__(this: Any, member: str) -> Any:
        facts = known.get(member)
        # notebooks look up these names on every object, so do not compile anything for them
        if member.startswith("__") or (facts is None and member.startswith(("_repr_", "_ipython_"))):
            raise AttributeError(member)
        if facts is not None and not facts["kind"] and facts.get("access"):
            raise AttributeError(f"{name}::{member} is {facts['access']}")
        setattr(type(this), member, _member(engine, this, name, member, facts, known))
        return getattr(this, member)

    def __setattr__(this: Any, member: str, value: Any) -> None:
        if not hasattr(type(this), member):
            getattr(this, member)  # called for its side effect: it adds the property to the class
        object.__setattr__(this, member, value)

    def __dir__(this: Any) -> list[str]:
        return sorted({*object.__dir__(this), *_public(known), *engine.members(name)})

    def __repr__(this: Any) -> str:
        return f"<C++ object {name}>"

    return {
        "__getattr__": __getattr__,
        "__setattr__": __setattr__,
        "__dir__": __dir__,
        "__repr__": __repr__,
        "__doc__": (declared.facts.get("doc") if declared else None) or None,
    }


def _public(members: dict[str, Any]) -> list[str]:
    return [name for name, facts in members.items() if name.isidentifier() and facts["kind"]]


def _printer(engine: Engine, name: str) -> Callable[[Any], str]:
    """Make ``__str__``, which returns the output of ``operator<<``, or the repr if the type has no such operator."""

    def __str__(this: Any) -> str:
        _, arguments = engine.describe(name, (this,))
        (compiled,) = engine.compile([Expression(PRINTED, arguments, f"{name} as text", is_optional=True)])
        return repr(this) if compiled is None else str(engine.call(compiled, this))

    return __str__


def _member(
    engine: Engine, this: Any, name: str, member: str, facts: dict[str, Any] | None, known: dict[str, Any]
) -> Any:
    """Make a method or a property."""
    kind = facts["kind"] if facts is not None else ""
    kind = kind or _ask_for_member(engine, this, name, member)
    if kind == "method":
        overloads = facts["overloads"] if facts is not None else []
        doc = "\n".join([*(signature(member, one) for one in overloads), "", facts["doc"] if facts else ""]).strip()
        invalidates = member in INVALIDATING
        miss = engine.on_templated_miss(
            lambda arguments: method(f"template {member}{arguments}" if arguments else member),
            f"{name}::{member}",
            overloads,
            1,
        )
        return engine.runtime.Method(f"{name}::{member}", miss, doc or None, invalidates=invalidates)
    if kind in ("field", "static field"):
        return _field(engine, name, member)
    if "operator->" in known:
        return _member_of_pointee(engine, member)
    near = difflib.get_close_matches(member, {*_public(known), *engine.members(name)}, 3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise AttributeError(f"{name} has no {member}{hint}")


def _member_of_pointee(engine: Engine, member: str) -> property:
    """Make a property for a member of the object that the type's ``operator->`` points to."""
    follow = engine.function("*{0}", "operator->")
    return property(
        lambda this: getattr(follow(this), member), lambda this, value: setattr(follow(this), member, value)
    )


def _field(engine: Engine, name: str, member: str) -> property:
    read = engine.function(data_member(member), f"{name}::{member}")
    write = engine.function(f"void({{0}}.{member} = {{1}})", f"{name}::{member} =")

    def store(this: Any, value: Any) -> None:
        try:
            write(this, value)
        except ArgumentError as error:
            kind = type(value).__name__
            raise AttributeError(f"{name}::{member} cannot be set to a value of type {kind}: {error}") from None

    return property(read, store)


def _ask_for_member(engine: Engine, this: Any, name: str, member: str) -> str:
    """Ask the compiler what kind of member a name is: ``"field"``, ``"method"``, or an empty text for no member.

    This is for names that no declaration shows, such as those of a base that depends on a template parameter.
    """
    _, arguments = engine.describe(name, (this,))
    own_field = Expression(data_member(member), arguments, f"{name}::{member}", is_optional=True)
    held = Expression(f"TKJIT_BIND_HAS_MEMBER({member}, {arguments[0].type})", (), f"{name}::{member}")
    called = Expression(method(member), arguments, f"{name}::{member}", is_optional=True)
    try:
        is_field, has = engine.compile([own_field, held], also=[called])
    except ArgumentError:  # the macro derives from the type; final classes, unions and pointers do not allow that
        is_field, is_called = engine.compile([own_field, called])
        is_method = is_called is not None or member in engine.members(name)
        return "field" if is_field is not None else "method" if is_method else ""
    if is_field is not None:
        return "field"
    ask = engine.runtime.Function(f"{name}::{member}", None)
    ask.add((), has)
    return "method" if ask() else ""
