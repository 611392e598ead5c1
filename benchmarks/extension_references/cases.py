"""Calls of extensions' functions with their expected results, registered by extension."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor


class Case(NamedTuple):
    """One call.

    Parameters
    ----------
    function : str
        The name in the extension's module; ``library::name`` for an operator.
    arguments : tuple
        Tensors are on the CPU. They, and those in lists, are moved to the device before the call.
    expected : Tensor or sequence of Tensor
        The tensors that the function returns or writes, or the first of them.
    written : tuple of Tensor
        The arguments that the function writes. If there are none, its results are compared.
    tolerance : float
        The largest allowed error, relative to the largest expected number. Integers have to be equal.
    on_cpu : bool
        Whether the function takes CPU tensors even if its extension has kernels.
    races : str
        The reason if the result depends on the order of a block's threads. Such a case is only compared on a GPU.
    """

    function: str
    arguments: tuple[Any, ...]
    expected: Tensor | Iterable[Tensor]
    written: tuple[Tensor, ...] = ()
    tolerance: float = 1e-5
    on_cpu: bool = False
    races: str = ""


Cases: TypeAlias = Callable[[], Iterator[Case]]
REFERENCES: dict[str, Cases] = {}


def of(*extensions: str) -> Callable[[Cases], Cases]:
    """Register the cases of some extensions, by their names in the manifest."""

    def register(cases: Cases) -> Cases:
        REFERENCES.update(dict.fromkeys(extensions, cases))
        return cases

    return register


def error_of(function: Callable[..., Any], case: Case, device: str) -> float:
    """The largest error of a call, relative to the largest expected number; infinite for a wrong shape."""
    moved: dict[int, Tensor] = {}

    def move(argument: Any) -> Any:
        if isinstance(argument, Tensor):
            return moved.setdefault(id(argument), argument.to("cpu" if case.on_cpu else device))
        return [move(each) for each in argument] if isinstance(argument, list) else argument

    returned = function(*map(move, case.arguments))
    got = [moved[id(each)] for each in case.written] or _listed(returned)
    expected = _listed(case.expected)
    if len(got) < len(expected):
        return float("inf")
    return max(_difference(torch.as_tensor(a).cpu(), b) for a, b in zip(got, expected, strict=False))


def gradients(function: Callable[..., Any], inputs: Iterable[Tensor], *upstream: Tensor) -> tuple[Tensor, ...]:
    """The gradients of a function's inputs, given those of its outputs."""
    leaves = [each.detach().double().requires_grad_() for each in inputs]
    outputs = _listed(function(*leaves))
    return torch.autograd.grad(outputs, leaves, [each.double() for each in upstream])


def _listed(values: Any) -> list[Any]:
    return [values] if isinstance(values, (Tensor, float, int)) else list(values)


def _difference(got: Tensor, expected: Tensor) -> float:
    if got.numel() != expected.numel():
        return float("inf")
    got = got.reshape(expected.shape)
    if not expected.is_floating_point():
        return float((got != expected).any())
    # also 0 for equal infinities
    difference = torch.where(got == expected, 0.0, got.double() - expected.double()).abs().max()
    error = difference / expected[expected.isfinite()].abs().max().clamp(min=1e-6)
    return float("inf") if error.isnan() else float(error)
