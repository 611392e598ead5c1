"""Batches: calls wait until a value is needed, and are then compiled together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from types import ModuleType
from typing import Any, NamedTuple, Protocol

from tkjit.bindings.compiled_calls import ClassOf, Unit
from tkjit.bindings.expressions import Argument, Expression
from tkjit.errors import TkjitError
from tkjit.system.fork_safe import ForkSafeLock


class Engine(Protocol):
    """The part of a library's ``Engine`` that batches use."""

    @property
    def runtime(self) -> ModuleType: ...
    def describe(self, name: str, args: tuple[Any, ...]) -> tuple[tuple[int, ...], tuple[Argument, ...]]: ...
    def prepare(
        self,
        name: str,
        overloads: Sequence[dict[str, Any]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        own: int = 0,
    ) -> tuple[Any, ...]: ...
    def is_kept(self, call: Expression, of: ClassOf | None = None) -> bool: ...
    def compile_batch(self, calls: Sequence[Expression], classes: Iterable[ClassOf]) -> Unit | None: ...


_current: ContextVar[Batch | None] = ContextVar("batch", default=None)


@contextmanager
def batch() -> Iterator[None]:
    """See ``tkjit.batch``."""
    if _current.get() is not None:
        yield
        return
    new = Batch()
    token = _current.set(new)
    try:
        yield
        new.flush()
    finally:
        new.drop()
        _current.reset(token)


class Batch:
    """Waiting calls, which all belong to one library. A call to another library flushes them."""

    def __init__(self) -> None:
        self._waiting: list[Waiting] = []
        self.engine: Engine | None = None

    def add(self, engine: Engine, call: Call, args: tuple[Any, ...]) -> Waiting:
        if self.engine is not engine:
            self.flush()
        self.engine = engine
        plain = tuple(arg for arg in args if not isinstance(arg, (Waiting, PointerTo)))
        described = iter(engine.describe(call.name, plain)[1])
        arguments = tuple(arg.argument if isinstance(arg, (Waiting, PointerTo)) else next(described) for arg in args)
        waiting = Waiting(self, len(self._waiting), call, args, Expression(call.form, arguments, call.name))
        self._waiting.append(waiting)
        _update_before_call(engine.runtime, self)
        return waiting

    def flush(self) -> None:
        """Compile the waiting calls, then make them in order."""
        waiting, engine = self._waiting, self.engine
        if engine is None or not waiting:
            return
        self._waiting = []
        _update_before_call(engine.runtime, self)
        token = _current.set(None)
        try:
            self._run(engine, waiting)
        except BaseException as error:
            for one in waiting:
                one.fail(error)
            raise
        finally:
            _current.reset(token)

    def drop(self) -> None:
        for one in self._waiting:
            one.fail(TkjitError("its batch was left by an exception"))
        self._waiting = []
        if self.engine is not None:
            _update_before_call(self.engine.runtime, self)

    def waits(self) -> bool:
        return bool(self._waiting)

    @staticmethod
    def _run(engine: Engine, waiting: list[Waiting]) -> None:
        expressions, positions = _deduplicate([one.expression for one in waiting])
        classes = list(dict.fromkeys(one.call.of for one in waiting if one.call.of is not None))
        unit = engine.compile_batch(expressions, classes)
        for one, position in zip(waiting, positions, strict=True):
            args = tuple(arg.value if isinstance(arg, (Waiting, PointerTo)) else arg for arg in one.args)
            if unit is not None:
                arguments = engine.describe(one.call.name, args)[1]
                # The unit was compiled for the types that C++ declares. An argument that is another call's result has
                # a different type if that result is a null pointer, or if an adapter has replaced it.
                if all(map(unit.fits, expressions[position].arguments, arguments)):
                    unit.keep(position, Expression(one.call.form, arguments, one.call.name))
            one.settle(one.call.make(*args))


def _deduplicate(waiting: Sequence[Expression]) -> tuple[list[Expression], list[int]]:
    """Return the distinct calls, and the position of each waiting call among them.

    Two calls are equal if their arguments have the same types. If an argument is the result of a waiting call, the
    waiting calls must be equal as well.
    """
    found: dict[Expression, int] = {}
    positions: list[int] = []
    for call in waiting:
        arguments = tuple(
            replace(one, type=str(positions[int(one.type)])) if one.how.startswith("deferred") else one
            for one in call.arguments
        )
        positions.append(found.setdefault(replace(call, arguments=arguments), len(found)))
    return list(found), positions


_waiting_batches: set[Batch] = set()  # from all threads
_before_call_lock = ForkSafeLock()


def _update_before_call(runtime: ModuleType, batch: Batch) -> None:
    """Have the runtime call ``_flush_current`` before each compiled call while any thread's batch has waiting calls."""
    with _before_call_lock:
        if batch.waits():
            _waiting_batches.add(batch)
        else:
            _waiting_batches.discard(batch)
        runtime.set_before_call(_flush_current if _waiting_batches else None)


def _flush_current() -> None:
    """Make the waiting calls of this thread's batch, so that a compiled call comes after them."""
    current = _current.get()
    if current is not None:
        current.flush()


class Call(NamedTuple):
    """A call: its C++ expression, and the function that makes the call."""

    form: str
    name: str
    make: Callable[..., Any]
    of: ClassOf | None = None  # the class that it constructs


def add_to_current(engine: Engine, call: Call, args: tuple[Any, ...]) -> Waiting | None:
    """Add a call to this thread's batch.

    Return None if there is no batch, or if the call can be made now because it is already compiled and no other call
    waits.
    """
    current = _current.get()
    if current is None:
        return None
    if not current.waits():
        expression = Expression(call.form, engine.describe(call.name, args)[1], call.name)
        if engine.is_kept(expression, call.of):
            return None
    return current.add(engine, call, args)


class Waiting:
    """A call that waits in a batch, and its result once the call has been made."""

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
        """The result. If the call still waits, all calls of the batch are compiled and made first."""
        if not self._is_settled and self._error is None:
            self.batch.flush()
        if self._error is not None:
            raise TkjitError(f"{self.call.name} has not been called: {self._error}") from self._error
        return self._value

    @property
    def waits(self) -> bool:
        """Whether the call still waits in this thread's batch."""
        return not self._is_settled and self._error is None and _current.get() is self.batch

    @property
    def argument(self) -> Argument:
        return Argument("deferred", str(self._position))

    @property
    def argument_as_pointer(self) -> Argument:
        return Argument("deferred pointer", str(self._position))

    def __repr__(self) -> str:
        return repr(self._value) if self._is_settled else f"<waiting: {self.call.name}>"


class PointerTo(NamedTuple):
    """A pointer to the result of a waiting call."""

    target: Waiting
    mark: Callable[[Any], Any]

    @property
    def value(self) -> Any:
        return self.mark(self.target.value)

    @property
    def argument(self) -> Argument:
        return self.target.argument_as_pointer
