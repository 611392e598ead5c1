"""``method`` turns a kernel into a method of a class: ``torch.Tensor.tk_gemm = tkjit.method("gemm")``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tkjit.errors import SpecError
from tkjit.kernel_objects.loading import Kernel, load


def method(kernel: Kernel | str) -> Callable[..., Any]:
    """Make a method for a class from a kernel: the object becomes the kernel's first argument.

    Parameters
    ----------
    kernel : Kernel or str
        The kernel, or its name. It is loaded immediately, and compiled by the first call.

    Raises
    ------
    SpecError
        If there is no such kernel, or its first parameter can only be passed by name.

    Examples
    --------
    >>> import torch, tkjit
    >>> torch.Tensor.tk_gemm = tkjit.method("gemm")
    >>> torch.eye(2).tk_gemm(torch.ones(2, 2))
    tensor([[1., 1.],
            [1., 1.]])
    >>> del torch.Tensor.tk_gemm
    """
    loaded = load(kernel)
    first = next(iter(loaded.signature.parameters.values()), None)
    if first is None or first.kind is first.KEYWORD_ONLY:
        raise SpecError(f"{loaded.name} takes no positional argument, so it cannot be a method")

    @functools.wraps(loaded, assigned=("__doc__",), updated=())
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return loaded(self, *args, **kwargs)

    call.__name__ = call.__qualname__ = loaded.name
    call.__signature__ = loaded.signature  # type: ignore[attr-defined]
    return call
