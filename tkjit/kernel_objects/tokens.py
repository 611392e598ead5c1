"""Assigns tokens to kernels, so that traced programs can refer to them."""

from __future__ import annotations

from itertools import count
from typing import Protocol
from weakref import WeakValueDictionary


class Registrable(Protocol):
    """The part of a kernel that a trace needs."""

    __name__: str

    def _ensure_operator(self) -> str:
        """Register the kernel with torch, and return the operator's name."""


_numbers = count()
by_token: WeakValueDictionary[str, Registrable] = WeakValueDictionary()


def token_for(kernel: Registrable) -> str:
    """Return a token that no other kernel in this process has."""
    token = f"{kernel.__name__}-{next(_numbers)}"
    by_token[token] = kernel
    return token
