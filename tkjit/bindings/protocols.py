"""Implements Python's protocols for C++ objects: operators, length, elements, iteration and NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tkjit.bindings.cpp_types import dtype_of
from tkjit.bindings.engine import Engine
from tkjit.bindings.expressions import (
    ADDRESS_OF_ELEMENTS,
    AT,
    DEREFERENCE,
    EXTENT,
    INCREMENT,
    POINTER_TO_ELEMENTS,
    RANK,
    SET_AT,
    SIZE,
    STRIDE,
    UNEQUAL,
    Expression,
    binary,
    method,
)
from tkjit.errors import ArgumentError

# bind.h's Protocol
_SIZE, _RANGE, _SUBSCRIPT, _CALL, _TRUTH, _EQUALITY, _EXTENTS = (1 << bit for bit in range(7))


def protocols_of(engine: Engine, protocols: int) -> dict[str, Any]:
    method = engine.method
    found: dict[str, Any] = {}
    if protocols & _SIZE:
        found["__len__"] = method(SIZE, "size", brief=True)
    if protocols & _EQUALITY:
        found |= equality(engine)
    if protocols & _TRUTH:
        found["__bool__"] = method("static_cast<bool>({0})", "conversion to bool", brief=True)
    elif protocols & _SIZE == 0:
        found["__bool__"] = lambda this: True
    if protocols & (_SUBSCRIPT | _CALL):
        found |= _subscript(engine, bool(protocols & _SUBSCRIPT))
    found["__call__"] = method("{0}({1*})", "operator()")
    if protocols & _RANGE:
        found["__iter__"] = _iteration(engine)
    if protocols & _EXTENTS:
        found["__array__"] = _array(engine, has_extents=True)
    elif protocols & _SIZE and protocols & _RANGE:
        found["__array__"] = _array(engine, has_extents=False)
    return found


def _subscript(engine: Engine, has_brackets: bool) -> dict[str, Any]:
    element = AT if has_brackets else "tkjit::bind::value({0}({1}))"
    read = engine.function(element, "operator[]", brief=True)
    several = engine.function("tkjit::bind::value({0}({1*}))", "operator()", brief=True)
    write = engine.function(SET_AT if has_brackets else "void({0}({1}) = {2})", "operator[] =", brief=True)

    def __getitem__(this: Any, index: Any) -> Any:
        return several(this, *index) if isinstance(index, tuple) else read(this, index)

    def __setitem__(this: Any, index: Any, value: Any) -> None:
        if not isinstance(index, tuple):
            write(this, index, value)
            return
        count = len(index)
        indices = ", ".join(f"{{{i + 1}}}" for i in range(count))
        name = f"operator() of {count} ="
        writers.setdefault(count, engine.function(f"void({{0}}({indices}) = {{{count + 1}}})", name))(
            this, *index, value
        )

    writers: dict[int, Any] = {}
    return {"__getitem__": __getitem__, "__setitem__": __setitem__}


def _iteration(engine: Engine) -> Callable[[Any], Iterator[Any]]:
    function = engine.function
    begin, end = function(method("begin"), "begin"), function(method("end"), "end")
    differs = function(UNEQUAL, "operator!=", brief=True)
    read = function(DEREFERENCE, "operator*", brief=True)
    step = function(INCREMENT, "operator++", brief=True)

    def __iter__(this: Any) -> Iterator[Any]:
        at, last = begin(this), end(this)
        while differs(at, last):
            yield read(at)
            step(at)

    return __iter__


def _array(engine: Engine, *, has_extents: bool) -> Callable[..., Any]:

    rank, extent, stride = (engine.function(form, form) for form in (RANK, EXTENT, STRIDE))

    def layout(this: Any) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
        """Return the extents, and the strides in elements."""
        if not has_extents:
            return (len(this),), None
        dimensions = range(rank(this))
        return tuple(extent(this, i) for i in dimensions), tuple(stride(this, i) for i in dimensions)

    def __array__(this: Any, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy

        view = _view(engine, this, layout)
        array = numpy.asarray(view) if view is not None else numpy.array(list(this))
        if copy is False and (view is None or (dtype is not None and array.dtype != dtype)):
            raise ValueError("this object cannot be converted to an array without a copy; leave out copy=False")
        array = array if dtype is None else array.astype(dtype, copy=False)
        return numpy.array(array) if copy else array

    return __array__


class _View:
    """Gives NumPy access to a container's memory, and keeps the container alive."""

    def __init__(self, container: Any, interface: dict[str, Any]) -> None:
        self.container = container
        self.__array_interface__ = interface


def _view(engine: Engine, container: Any, layout: Callable[[Any], Any]) -> _View | None:
    """Return the elements of a container as a view, or None if they are not numbers in the host's memory."""
    _, arguments = engine.describe("__array__", (container,))
    calls = [Expression(form, arguments, form, is_optional=True) for form in (ADDRESS_OF_ELEMENTS, POINTER_TO_ELEMENTS)]
    address, pointer = (
        None if compiled is None else engine.call(compiled, container) for compiled in engine.compile(calls)
    )
    if pointer is None or engine.headers.backend == "cuda":
        return None
    is_const = pointer.startswith("PK")
    letter = dtype_of(_DEMANGLED.get(pointer[2 if is_const else 1 :], ""))
    if not letter:
        return None
    import numpy

    extents, strides = layout(container)
    dtype = numpy.dtype(letter)
    interface = {
        "version": 3,
        "shape": extents,
        "strides": strides and tuple(step * dtype.itemsize for step in strides),
        "typestr": dtype.str,
        "data": (address, is_const),
    }
    return _View(container, interface)


# Maps typeid's names to the C++ names of number types.
_DEMANGLED = {
    "b": "bool",
    "a": "signed char",
    "h": "unsigned char",
    "s": "short",
    "t": "unsigned short",
    "i": "int",
    "j": "unsigned int",
    "l": "long",
    "m": "unsigned long",
    "x": "long long",
    "y": "unsigned long long",
    "f": "float",
    "d": "double",
    "e": "long double",
    "St7complexIfE": "std::complex<float>",
    "St7complexIdE": "std::complex<double>",
}


BINARY = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "mod": "%",
    "lshift": "<<",
    "rshift": ">>",
    "and": "&",
    "or": "|",
    "xor": "^",
}
COMPARED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_UNARY = {"neg": "-", "pos": "+", "invert": "~"}


def operators(engine: Engine) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, sign in BINARY.items():
        found[f"__{name}__"] = engine.method(binary(sign), f"operator{sign}")
        found[f"__r{name}__"] = engine.method(f"{{1}} {sign} {{0}}", f"operator{sign}")
        found[f"__i{name}__"] = _in_place(engine, sign)
    for name, sign in COMPARED.items():
        found[f"__{name}__"] = engine.method(binary(sign), f"operator{sign}")
    for name, sign in _UNARY.items():
        found[f"__{name}__"] = engine.method(f"{sign}{{0}}", f"operator{sign}")
    found["__float__"] = engine.method("static_cast<double>({0})", "conversion to double")
    to_integer = engine.function("static_cast<long long>({0})", "conversion to long long")
    found["__int__"] = lambda this: int(to_integer(this))  # __int__ has to return a plain int
    return found


def _in_place(engine: Engine, sign: str) -> Callable[[Any, Any], Any]:
    call = engine.function(f"{{0}} {sign}= {{1}}", f"operator{sign}=")

    def in_place(this: Any, other: Any) -> Any:
        try:
            return call(this, other)
        except ArgumentError:
            return NotImplemented

    return in_place


def equality(engine: Engine) -> dict[str, Any]:
    equal = engine.function("static_cast<bool>({0} == {1})", "operator==")

    def __eq__(this: Any, other: Any) -> Any:
        try:
            return equal(this, other)
        except ArgumentError:
            return NotImplemented

    return {"__eq__": __eq__, "__hash__": None}
