"""Calls that are compiled together: in a batch they wait until a value is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from types import CodeType, ModuleType
from typing import Any, NamedTuple, Protocol

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
        self._waiting: list[Waiting] = []
        self.engine: Engine | None = None
        self.is_rehearsed = False

    def add(self, engine: Engine, call: Call, args: tuple[Any, ...]) -> Waiting:
        if self.engine is not engine or (self.is_rehearsed and len(self._waiting) >= MOST_REHEARSED):
            self.flush()
        self.engine = engine
        plain = tuple(arg for arg in args if not isinstance(arg, (Waiting, PointerTo)))
        described = iter(engine.describe(call.name, plain)[1])
        given = tuple(arg.given if isinstance(arg, (Waiting, PointerTo)) else next(described) for arg in args)
        made = Waiting(self, len(self._waiting), call, args, Expression(call.form, given, call.name))
        if self.is_rehearsed and not any(one.how.startswith("deferred") for one in given):
            result = engine.result_of(made.expression, call.of)
            if result is not None:
                return Typed(made, result)
        self._waiting.append(made)
        _have_calls_ask(engine.runtime, self)
        return made

    def plan(self, rehearse: Callable[[], None]) -> list[Waiting]:
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
        waiting, engine = self._waiting, self.engine
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
        if self.engine is not None:
            _have_calls_ask(self.engine.runtime, self)

    def waits(self) -> bool:
        return bool(self._waiting)

    @staticmethod
    def _run(engine: Engine, waiting: list[Waiting], planned: list[Waiting], lines: Lines | None) -> None:
        expressions, positions = _without_repetitions([one.expression for one in waiting])
        unit = _compile_with(engine, waiting, planned, lines) if planned and lines is not None else None
        unit = unit or engine.compile_batch(expressions, _classes_of(waiting))
        for one, position in zip(waiting, positions, strict=True):
            args = tuple(arg.value if isinstance(arg, (Waiting, PointerTo)) else arg for arg in one.args)
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


def _classes_of(calls: Iterable[Waiting]) -> list[ClassOf]:
    """What they construct."""
    return list(dict.fromkeys(one.call.of for one in calls if one.call.of is not None))


def _compile_with(engine: Engine, waiting: Sequence[Waiting], planned: Sequence[Waiting], lines: Lines) -> Unit | None:
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


def add_to_current(engine: Engine, call: Call, args: tuple[Any, ...]) -> Waiting | None:
    """Have a call wait in the batch of this thread; None where there is none, or where it is to be made now."""
    current = _current.get()
    if current is None:
        return None
    if not current.waits():
        expression = Expression(call.form, engine.describe(call.name, args)[1], call.name)
        if engine.is_kept(expression, call.of):
            return None
    return current.add(engine, call, args)


class Waiting:
    """A call that waits in a batch, and afterwards its result."""

    def __init__(self, batch: Batch, position: int, call: Call, args: tuple[Any, ...], expression: Expression) -> None:
        self.batch = batch
        self.call = call
        self.args = args
        self.expression = expression
        self._position = position
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
            self.batch.flush()
        if self._error is not None:
            raise TkjitError(f"{self.call.name} has not been called: {self._error}") from self._error
        return self._value

    @property
    def waits(self) -> bool:
        """Whether the call still waits, in the batch of this thread."""
        return not self._is_settled and self._error is None and _current.get() is self.batch

    @property
    def given(self) -> Given:
        return Given("deferred", str(self._position))

    @property
    def given_as_pointer(self) -> Given:
        return Given("deferred pointer", str(self._position))

    def __repr__(self) -> str:
        return repr(self._value) if self._is_settled else f"<waiting: {self.call.name}>"


class Typed(Waiting):
    """While calls are rehearsed, the result of one that is compiled already, so that its type is known."""

    def __init__(self, of: Waiting, given: Given) -> None:
        super().__init__(of.batch, -1, of.call, (), of.expression)
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


class PointerTo(NamedTuple):
    """A pointer to the result of a call that waits."""

    target: Waiting
    mark: Callable[[Any], Any]

    @property
    def value(self) -> Any:
        return self.mark(self.target.value)

    @property
    def given(self) -> Given:
        return self.target.given_as_pointer
