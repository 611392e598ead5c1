"""Assigns names to kernels for use in traced programs."""

from __future__ import annotations

from itertools import count
from typing import Protocol
from weakref import WeakValueDictionary


class Registrable(Protocol):
    """A kernel, as far as a trace needs it."""

    __name__: str

    def register_operator(self) -> str:
        """Register it with torch; the operator's name."""


_numbers = count()
by_token: WeakValueDictionary[str, Registrable] = WeakValueDictionary()


def token_for(kernel: Registrable) -> str:
    """A token that no other kernel of this process has."""
    token = f"{kernel.__name__}-{next(_numbers)}"
    by_token[token] = kernel
    return token
