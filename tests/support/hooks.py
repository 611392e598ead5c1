"""Arguments of kernels with hooks that run test code during a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class Stop(BaseException):
    """An error that is unrelated to the argument, and must propagate unchanged."""


def raising(error: BaseException) -> Callable[[], object]:
    """Return a hook that raises an error."""

    def hook() -> None:
        raise error

    return hook


class Number:
    """A number that runs a hook before it is converted."""

    def __init__(self, hook: Callable[[], object]) -> None:
        self.hook = hook

    def __float__(self):
        self.hook()
        return 2.0

    def __index__(self):
        self.hook()
        return 2

    def __bool__(self):
        self.hook()
        return True


class Producer:
    """An array of an unknown framework that supports DLPack.

    Parameters
    ----------
    hook : callable
        Runs before the array is exported.
    result : object
        Returned in place of the array's capsule.
    versions : bool
        Whether its ``__dlpack__`` takes ``max_version``.
    """

    def __init__(
        self,
        array: np.ndarray,
        hook: Callable[[], object] = lambda: None,
        *,
        result: Any = None,
        versions: bool = True,
    ) -> None:
        self.array, self.hook, self.result, self.versions = array, hook, result, versions
        self.shape, self.dtype = array.shape, array.dtype

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **keywords):
        self.hook()
        if "max_version" in keywords and not self.versions:
            raise TypeError("unexpected keyword max_version")
        return self.array.__dlpack__(**keywords) if self.result is None else self.result

    def __array_namespace__(self):
        return np
