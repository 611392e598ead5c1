"""Kernels by a token: a name that code which is being traced can hold instead of the kernel."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from tkjit.kernel.kernel import Kernel

_numbers = count()
by_token: WeakValueDictionary[str, Kernel] = WeakValueDictionary()


def token_for(kernel: Kernel) -> str:
    """A token that no other kernel of this process has."""
    token = f"{kernel.__name__}-{next(_numbers)}"
    by_token[token] = kernel
    return token
