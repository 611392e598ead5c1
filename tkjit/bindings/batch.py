"""Calls that are compiled together: in a batch they wait until a value is needed."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from types import CodeType, ModuleType
from typing import Any, NamedTuple, Protocol

from tkjit.bindings import forms
from tkjit.bindings.compiled_calls import ClassOf, Unit
from tkjit.bindings.expressions import Expression, Given
from tkjit.errors import TkjitError
from tkjit.system.fork_safe import ForkSafeLock


class Lines(Protocol):
    """The lines behind the present one of the calling function."""

    @property
    def code(self) -> CodeType: ...
    def rehearse(self) -> None: ...


class Engine(Protocol):
    """What a batch needs of a library's ``Engine``."""

    not_rehearsed: set[CodeType]

    @property
    def runtime(self) -> ModuleType: ...
    def describe(self, name: str, args: tuple[Any, ...]) -> tuple[tuple[int, ...], tuple[Given, ...]]: ...
    def prepare(
        self,
        name: str,
        overloads: Sequence[dict[str, Any]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        own: int = 0,
    ) -> tuple[Any, ...]: ...
    def is_kept(self, call: Expression, of: ClassOf | None = None) -> bool: ...
    def lines_behind(self) -> Lines | None: ...
    def result_of(self, call: Expression, of: ClassOf | None = None) -> Given | None: ...
    def compile_batch(self, calls: Sequence[Expression], classes: Iterable[ClassOf]) -> Unit | None: ...


MOST_REHEARSED = 32
_current: ContextVar[Batch | None] = ContextVar("batch", default=None)


class NotRehearsedError(Exception):
    """A value is needed, or something would have to be compiled, while calls are rehearsed."""


def check_not_rehearsed() -> None:
    """
    Raises
    ------
    NotRehearsedError
        If calls are rehearsed.
    """
    current = _current.get()
    if current is not None and current.is_rehearsed:
        raise NotRehearsedError


@contextmanager
def batch() -> Iterator[None]:
    """See ``tkjit.batch``."""
    if _current.get() is not None:
        yield
        return
    made = Batch()
    token = _current.set(made)
    try:
        yield
        made.flush()
    finally:
        made.drop()
        _current.reset(token)


class Batch:
    """The calls that wait, all of one library: those of another are made first."""

    def __init__(self) -> None:
        self._waiting: list[Deferred] = []
        self._engine: Engine | None = None
        self.is_rehearsed = False

    def add(self, engine: Engine, call: Call, args: tuple[Any, ...]) -> Deferred:
        if self._engine is not engine or (self.is_rehearsed and len(self._waiting) >= MOST_REHEARSED):
            self.flush()
        self._engine = engine
        args = tuple(_settled(arg) for arg in args)
        plain = tuple(arg for arg in args if not isinstance(arg, (Deferred, Pointer)))
        described = iter(engine.describe(call.name, plain)[1])
        given = tuple(arg.given if isinstance(arg, (Deferred, Pointer)) else next(described) for arg in args)
        made = Deferred(self, len(self._waiting), call, args, Expression(call.form, given, call.name))
        if self.is_rehearsed and not any(one.how.startswith("deferred") for one in given):
            result = engine.result_of(made.expression, call.of)
            if result is not None:
                return Typed(made, result)
        self._waiting.append(made)
        _have_calls_ask(engine.runtime, self)
        return made

    def plan(self, rehearse: Callable[[], None]) -> list[Deferred]:
        """The calls that would be added by a function, which are not made."""
        count, token = len(self._waiting), _current.set(self)
        self.is_rehearsed = True
        try:
            with suppress(Exception):  # it only saves time
                rehearse()
        finally:
            self.is_rehearsed = False
            _current.reset(token)
            planned = self._waiting[count:]
            del self._waiting[count:]
        return planned

    def flush(self) -> None:
        """Compile what waits, and make the calls.

        Raises
        ------
        NotRehearsedError
            If calls are rehearsed.
        """
        if self.is_rehearsed:
            raise NotRehearsedError
        waiting, engine = self._waiting, self._engine
        if engine is None or not waiting:
            return
        lines = engine.lines_behind()
        planned = self.plan(lines.rehearse) if lines is not None else []
        self._waiting = []
        _have_calls_ask(engine.runtime, self)
        token = _current.set(None)
        try:
            self._run(engine, waiting, planned, lines)
        except BaseException as error:
            for one in waiting:
                one.fail(error)
            raise
        finally:
            _current.reset(token)

    def drop(self) -> None:
        for one in self._waiting:
            one.fail(TkjitError("the batch of this call has been left by an exception"))
        self._waiting = []
        if self._engine is not None:
            _have_calls_ask(self._engine.runtime, self)

    def waits(self) -> bool:
        return bool(self._waiting)

    @staticmethod
    def _run(engine: Engine, waiting: list[Deferred], planned: list[Deferred], lines: Lines | None) -> None:
        expressions, positions = _without_repetitions([one.expression for one in waiting])
        unit = _compile_with(engine, waiting, planned, lines) if planned and lines is not None else None
        unit = unit or engine.compile_batch(expressions, _classes_of(waiting))
        for one, position in zip(waiting, positions, strict=True):
            args = tuple(arg.value if isinstance(arg, (Deferred, Pointer)) else arg for arg in one.args)
            if unit is not None:
                given = engine.describe(one.call.name, args)[1]
                # another call is needed for a null pointer, or for what an adapter has made of a result
                if all(map(unit.fits, expressions[position].given, given)):
                    unit.keep(position, Expression(one.call.form, given, one.call.name))
            one.settle(one.call.make(*args))


def _without_repetitions(waiting: Sequence[Expression]) -> tuple[list[Expression], list[int]]:
    """Calls that take each other's results, each once for the same types; and for each that waits which one it is."""
    found: dict[Expression, int] = {}
    positions: list[int] = []
    for call in waiting:
        given = tuple(
            replace(one, type=str(positions[int(one.type)])) if one.how.startswith("deferred") else one
            for one in call.given
        )
        positions.append(found.setdefault(replace(call, given=given), len(found)))
    return list(found), positions


def _classes_of(calls: Iterable[Deferred]) -> list[ClassOf]:
    """What they construct."""
    return list(dict.fromkeys(one.call.of for one in calls if one.call.of is not None))


def _compile_with(
    engine: Engine, waiting: Sequence[Deferred], planned: Sequence[Deferred], lines: Lines
) -> Unit | None:
    """Compile calls with those that are planned, and keep the latter; None where something does not compile."""
    first, _ = _without_repetitions([one.expression for one in waiting])
    expressions, _ = _without_repetitions([one.expression for one in (*waiting, *planned)])
    unit = engine.compile_batch(expressions, _classes_of((*waiting, *planned)))
    if unit is None:
        engine.not_rehearsed.add(lines.code)  # who calls what does not compile hears of it then
        return None
    for position, one in enumerate(expressions[len(first) :], len(first)):
        given = unit.given_to(one)
        if given is not None:
            unit.keep(position, Expression(one.form, given, one.name))
    return unit


def compile_ahead(
    engine: Engine, call: Expression, args: tuple[Any, ...], make: Callable[..., Any], of: ClassOf | None = None
) -> None:
    """Compile a call that is about to be made, with those in the lines behind it; nothing where there are none.

    Parameters
    ----------
    call : Expression
    args : tuple
        Of the call.
    make : callable
        Makes it.
    of : ClassOf, optional
        The class that it constructs.
    """
    lines = engine.lines_behind()
    if lines is None or engine.is_kept(call, of):
        return
    alone = Batch()
    try:
        waiting = [alone.add(engine, Call(call.form, call.name, make, of), args)]
        planned = alone.plan(lines.rehearse)
    finally:
        alone.drop()
    # a class is better compiled with its probable calls, where it is not clear what is done with its object
    expressions, _ = _without_repetitions([one.expression for one in (*waiting, *planned)])
    given = [one for other in expressions for one in other.given]
    is_used = any(one.how.startswith("deferred") and one.type == "0" for one in given)
    if len(expressions) > 1 and (of is None or is_used):
        _compile_with(engine, waiting, planned, lines)


_waiting_batches: set[Batch] = set()  # of all threads
_asking = ForkSafeLock()


def _have_calls_ask(runtime: ModuleType, batch: Batch) -> None:
    """Have the runtime ask before each call that need not be compiled, while calls wait in a batch of any thread."""
    with _asking:
        if batch.waits():
            _waiting_batches.add(batch)
        else:
            _waiting_batches.discard(batch)
        runtime.set_before_call(_on_other_call if _waiting_batches else None)


def _on_other_call() -> bool | None:
    """A call is about to be made: those that wait before it come first. True: it is not to be made."""
    current = _current.get()
    if current is not None:
        if current.is_rehearsed:
            return True
        current.flush()
    return None


class Call(NamedTuple):
    """What a call does: its C++, and how Python makes it."""

    form: str
    name: str
    make: Callable[..., Any]
    of: ClassOf | None = None  # the class that it constructs


def _settled(argument: Any) -> Any:
    """An argument, or the result that it stands for."""
    return argument.as_argument() if isinstance(argument, (Deferred, Pointer)) else argument


def defer(
    engine: Engine, form: str, name: str, args: tuple[Any, ...], make: Callable[..., Any], of: ClassOf | None = None
) -> Deferred | None:
    """A placeholder for the result of a call that has to wait; None where it is to be made now."""
    current = _current.get()
    if current is None:
        return None
    if not current.waits():
        args = tuple(_settled(arg) for arg in args)
        call = Expression(form, engine.describe(name, args)[1], name)
        if engine.is_kept(call, of):
            return None
    return current.add(engine, Call(form, name, make, of), args)


class Deferred:
    """The result of a call that waits in a batch, and afterwards the result."""

    def __init__(self, batch: Batch, position: int, call: Call, args: tuple[Any, ...], expression: Expression) -> None:
        self._batch = batch
        self._position = position
        self.call = call
        self.args = args
        self.expression = expression
        self._error: BaseException | None = None
        self._is_settled = False
        self._value: Any = None

    def settle(self, value: Any) -> None:
        self._value, self._is_settled = value, True
        self.args = ()

    def fail(self, error: BaseException) -> None:
        if not self._is_settled:
            self._error = error

    @property
    def value(self) -> Any:
        """The result. Where the call still waits, it is made now, with those before it."""
        if not self._is_settled and self._error is None:
            self._batch.flush()
        if self._error is not None:
            raise TkjitError(f"{self.call.name} has not been called: {self._error}") from self._error
        return self._value

    @property
    def waits(self) -> bool:
        """Whether the call still waits, in the batch of this thread."""
        return not self._is_settled and self._error is None and _current.get() is self._batch

    @property
    def given(self) -> Given:
        return Given("deferred", str(self._position))

    @property
    def given_as_pointer(self) -> Given:
        return Given("deferred pointer", str(self._position))

    def as_argument(self) -> Any:
        return self if self.waits else self.value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return Member(self, name) if self.waits else getattr(self.value, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_") or name in ("call", "args", "expression"):
            object.__setattr__(self, name, value)
        else:
            setattr(self.value, name, value)

    def __call__(self, *args: Any) -> Any:
        return self.value(*args)

    def __repr__(self) -> str:
        return repr(self._value) if self._is_settled else f"<waiting: {self.call.name}>"

    def __dir__(self) -> list[str]:
        return dir(self.value)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        import numpy

        return numpy.asarray(self.value, *args, **kwargs)

    def __getitem__(self, index: Any) -> Any:
        if type(index) is int or isinstance(index, Deferred):
            return self.combine(forms.AT, "operator[]", operator.getitem, index)
        return self.value[_value_of(index)]

    def __neg__(self) -> Any:
        return self.combine("-{0}", "operator-", operator.neg)

    def combine(self, form: str, name: str, make: Callable[..., Any], *others: Any) -> Any:
        """The result of an operator, or of a member."""
        if not self.waits:
            return make(self.value, *map(_value_of, others))
        engine = self._batch._engine
        assert engine is not None
        args = engine.prepare(name, (), (self, *others), {})
        return self._batch.add(engine, Call(form, name, make), args)


class Typed(Deferred):
    """While calls are rehearsed, the result of one that is compiled already, so that its type is known."""

    def __init__(self, of: Deferred, given: Given) -> None:
        super().__init__(of._batch, -1, of.call, (), of.expression)
        self._given = given

    @property
    def given(self) -> Given:
        return self._given

    @property
    def given_as_pointer(self) -> Given:
        how = {"object": "pointer", "const": "const pointer"}.get(self._given.how)
        if how is None:
            raise NotRehearsedError
        return Given(how, self._given.type)


class Pointer:
    """A pointer to the result of a call that waits."""

    def __init__(self, target: Deferred, mark: Callable[[Any], Any]) -> None:
        self._target = target
        self._mark = mark

    @property
    def value(self) -> Any:
        return self._mark(self._target.value)

    @property
    def given(self) -> Given:
        return self._target.given_as_pointer

    def as_argument(self) -> Any:
        return self if self._target.waits else self.value


class Member:
    """A member of a result that waits: a method, if it is called, or else a field."""

    def __init__(self, owner: Deferred, name: str) -> None:
        self._owner = owner
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self._name
        if kwargs:
            return getattr(self._owner.value, name)(*args, **kwargs)
        return self._owner.combine(forms.method(name), name, lambda this, *rest: getattr(this, name)(*rest), *args)

    def as_argument(self) -> Any:
        name = self._name
        made = self._owner.combine(forms.field(name), name, operator.attrgetter(name))
        return made.as_argument() if isinstance(made, Deferred) else made

    @property
    def value(self) -> Any:
        return _value_of(self.as_argument())

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        import numpy

        return numpy.asarray(self.value, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.as_argument(), name)

    def __repr__(self) -> str:
        return f"<member {self._name} of {self._owner!r}>"


def _value_of(argument: Any) -> Any:
    return argument.value if isinstance(argument, (Deferred, Member)) else argument


def _operator(name: str, sign: str) -> Callable[..., Any]:
    function = getattr(operator, f"__{name}__")

    def operate(this: Deferred, other: Any) -> Any:
        if not this.waits and isinstance(other, Deferred) and other.waits:
            return _reversed_operator(name, sign)(other, this.value)
        return this.combine(forms.binary(sign), f"operator {name}", function, other)

    return operate


def _reversed_operator(name: str, sign: str) -> Callable[..., Any]:
    function = _reversed(getattr(operator, f"__{name}__"))

    def operate(this: Deferred, other: Any) -> Any:
        if type(other) not in (int, float, complex):
            return function(this.value, _value_of(other))
        return this.combine(f"{{1}} {sign} {{0}}", f"operator {name}", function, other)

    return operate


def _reversed(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda one, other: function(other, one)


def _of_value(function: Callable[..., Any]) -> Callable[..., Any]:
    def on_value(this: Any, *args: Any) -> Any:
        return function(this.value, *map(_value_of, args))

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
