"""Placeholders for the results of waiting calls. You can pass them to calls, and use their members and operators.

The Python attributes of a placeholder begin with an underscore, because all other names belong to C++.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tkjit.bindings.batch import Call, Engine, PointerTo, Waiting, add_to_current
from tkjit.bindings.compiled_calls import ClassOf
from tkjit.bindings.expressions import AT, binary, data_member, method


def defer(
    engine: Engine, form: str, name: str, args: tuple[Any, ...], make: Callable[..., Any], of: ClassOf | None = None
) -> Deferred | None:
    """Return a placeholder if the call has to wait in a batch, or None if it can be made now."""
    waiting = add_to_current(engine, Call(form, name, make, of), tuple(map(_as_waiting, args)))
    return None if waiting is None else Deferred(waiting)


def value_of(argument: Any) -> Any:
    """Return a placeholder's value, making its call if necessary. Other arguments are returned as they are."""
    return argument._tkjit_value() if isinstance(argument, _Placeholder) else argument


def pointer_to(argument: Any, mark: Callable[[Any], Any]) -> Any:
    """Return a pointer to an object, or to the value of a placeholder.

    Parameters
    ----------
    mark : callable
        Makes a pointer to an object.
    """
    if isinstance(argument, Member):
        argument = argument.__tkjit_argument__()
    return (
        Pointer(argument._waiting, mark)
        if isinstance(argument, Deferred) and _waits(argument)
        else mark(value_of(argument))
    )


def _as_waiting(argument: Any) -> Any:
    """Convert an argument to the form in which batches store it."""
    if isinstance(argument, Pointer):
        return argument._pointer if argument._pointer.target.waits else argument._pointer.value
    if isinstance(argument, Deferred):
        return argument._waiting if argument._waiting.waits else argument._waiting.value
    return argument


class _Placeholder:
    """The common part of all placeholders."""

    def _tkjit_value(self) -> Any:
        raise NotImplementedError

    def __tkjit_argument__(self) -> Any:
        raise NotImplementedError

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        import numpy

        return numpy.asarray(self._tkjit_value(), *args, **kwargs)


class Deferred(_Placeholder):
    """The result of a call that waits in a batch. After the call, it behaves like the result itself."""

    def __init__(self, waiting: Waiting) -> None:
        object.__setattr__(self, "_waiting", waiting)

    _waiting: Waiting

    def _tkjit_value(self) -> Any:
        return self._waiting.value

    def __tkjit_argument__(self) -> Any:
        return self if _waits(self) else self._waiting.value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return Member(self, name) if _waits(self) else getattr(self._waiting.value, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._waiting.value, name, value)

    def __call__(self, *args: Any) -> Any:
        return self._waiting.value(*args)

    def __repr__(self) -> str:
        return repr(self._waiting)

    def __dir__(self) -> list[str]:
        return dir(self._waiting.value)

    def __getitem__(self, index: Any) -> Any:
        if (isinstance(index, int) and not isinstance(index, bool)) or isinstance(index, Deferred):
            return _combine(self, AT, "operator[]", operator.getitem, index)
        return self._waiting.value[value_of(index)]

    def __neg__(self) -> Any:
        return _combine(self, "-{0}", "operator-", operator.neg)


class Member(_Placeholder):
    """A member of a waiting result: a method if it is called, otherwise a field."""

    def __init__(self, owner: Deferred, name: str) -> None:
        self._owner = owner
        self._name = name

    def _tkjit_value(self) -> Any:
        return value_of(self.__tkjit_argument__())

    def __tkjit_argument__(self) -> Any:
        field = _combine(self._owner, data_member(self._name), self._name, operator.attrgetter(self._name))
        return field.__tkjit_argument__() if isinstance(field, Deferred) else field

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self._name
        if kwargs:
            return getattr(value_of(self._owner), name)(*args, **kwargs)
        return _combine(self._owner, method(name), name, lambda this, *rest: getattr(this, name)(*rest), *args)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.__tkjit_argument__(), name)

    def __repr__(self) -> str:
        return f"<member {self._name} of {self._owner!r}>"


class Pointer:
    """A pointer to the result of a waiting call."""

    def __init__(self, target: Waiting, mark: Callable[[Any], Any]) -> None:
        self._pointer = PointerTo(target, mark)

    def __tkjit_argument__(self) -> Any:
        return self if self._pointer.target.waits else self._pointer.value


def _waits(argument: Any) -> bool:
    return isinstance(argument, Deferred) and argument._waiting.waits


def _combine(this: Deferred, form: str, name: str, make: Callable[..., Any], *others: Any) -> Any:
    """Return the result of an operator or a member, which is a placeholder if ``this`` still waits."""
    if not _waits(this):
        return make(value_of(this), *map(value_of, others))
    engine = this._waiting.batch.engine
    assert engine is not None
    args = engine.prepare(name, (), (this, *others), {})
    return Deferred(this._waiting.batch.add(engine, Call(form, name, make), tuple(map(_as_waiting, args))))


def _operator(name: str, sign: str) -> Callable[..., Any]:
    function = getattr(operator, f"__{name}__")

    def operate(this: Deferred, other: Any) -> Any:
        if not _waits(this) and _waits(other):
            return _reversed_operator(name, sign)(other, value_of(this))
        return _combine(this, binary(sign), f"operator {name}", function, other)

    return operate


def _reversed_operator(name: str, sign: str) -> Callable[..., Any]:
    function = _reversed(getattr(operator, f"__{name}__"))

    def operate(this: Deferred, other: Any) -> Any:
        if type(other) not in (int, float, complex):
            return function(value_of(this), value_of(other))
        return _combine(this, f"{{1}} {sign} {{0}}", f"operator {name}", function, other)

    return operate


def _reversed(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda one, other: function(other, one)


def _of_value(function: Callable[..., Any]) -> Callable[..., Any]:
    def on_value(this: Any, *args: Any) -> Any:
        return function(*map(value_of, (this, *args)))

    return on_value


for _name, _sign in {"add": "+", "sub": "-", "mul": "*", "truediv": "/"}.items():
    setattr(Deferred, f"__{_name}__", _operator(_name, _sign))
    setattr(Deferred, f"__r{_name}__", _reversed_operator(_name, _sign))
    setattr(Member, f"__{_name}__", _of_value(getattr(operator, f"__{_name}__")))
    setattr(Member, f"__r{_name}__", _of_value(_reversed(getattr(operator, f"__{_name}__"))))
setattr(Member, "__getitem__", _of_value(operator.getitem))  # noqa: B010
setattr(Member, "__neg__", _of_value(operator.neg))  # noqa: B010
for _class in (Deferred, Member):
    for _name in "eq ne lt le gt ge setitem index iadd isub imul contains floordiv mod pow".split():
        setattr(_class, f"__{_name}__", _of_value(getattr(operator, f"__{_name}__")))
    for _function in (bool, int, float, len, iter, str, hash):
        setattr(_class, f"__{_function.__name__}__", _of_value(_function))
    for _name in ("floordiv", "mod", "pow"):
        setattr(_class, f"__r{_name}__", _of_value(_reversed(getattr(operator, f"__{_name}__"))))
