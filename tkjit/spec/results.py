"""Makes the result types of calls with several outputs: one named tuple class per kernel and set of names."""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any


@cache
def result_type(kernel: str, returns: tuple[str, ...]) -> Any:
    """Return the named tuple's type, or None for fewer than two results. A pickled instance stores both arguments.

    Examples
    --------
    >>> result_type("top", ("values", "indices"))(1, 2)
    top_result(values=1, indices=2)
    """
    if len(returns) < 2:
        return None

    def reduce(self: tuple[Any, ...]) -> tuple[Any, ...]:
        return _made_again, (kernel, returns, tuple(self))

    name = f"{kernel}_result"
    base: Any = namedtuple(name, returns)  # type: ignore[misc]
    return type(name, (base,), {"__slots__": (), "__reduce__": reduce})


def _made_again(kernel: str, returns: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return result_type(kernel, returns)(*values)
