"""How far a result may be from its reference, by dtype."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tkjit.check.results import numbers_of
from tkjit.spec import Spec, Variant

# The largest error of a row, as a part of the row, for sums and products whose inputs and results are of a type:
# a rounding is off by about a fifth of eps (the root mean square of what lies evenly within eps / 2, of numbers between
# two powers of two), and what is computed inside may be rounded to the type a few times.
_ROW_TOLERANCE = {
    "float64": 1e-12,
    "float32": 1e-5,
    "float16": 2e-3,
    "bfloat16": 0.015,
    "float8_e4m3fn": 0.05,
    "float8_e5m2": 0.1,
    "float8_e8m0fnu": 0.5,
    "float4_e2m1fn_x2": 0.3,
}
_ELEMENT_TO_ROW = 8  # what is allowed of an element to what is of its row: of many elements one is far out


@dataclass(frozen=True)
class Bound:
    """How far a result may be off.

    Parameters
    ----------
    row : float
        The root mean square of a row's errors, as a part of that of the row.
    element : float
        An element's error, as a part of the larger of itself and its row's root mean square.
    """

    row: float

    @property
    def element(self) -> float:
        return _ELEMENT_TO_ROW * self.row


def bound_of(spec: Spec, variant: Variant) -> Bound:
    """What the spec says, or the coarsest of the dtypes that the call reads and writes: a float32 sum of products of
    bfloat16 is as exact as float32, but not what comes of exponentials of it that are rounded in between."""
    names = {variant.dtype_of(f).name for f in spec.tensors}
    by_type = max((_ROW_TOLERANCE.get(name, 0.0) for name in names), default=0.0)
    return Bound(spec.verification.tolerance or by_type or _ROW_TOLERANCE["float32"])


def row_error(wanted: torch.Tensor, got: torch.Tensor) -> float:
    """The largest error of a row, as a part of the row. A row near zero counts as a tenth of what rows are on average.
    Infinite where the shapes differ, or where one of two numbers is not finite, or not a number."""
    if wanted.shape != got.shape:
        return float("inf")
    right, found = _numbers(wanted, got.dtype), _numbers(got, got.dtype)
    if not right.numel():
        return 0.0
    same = (right == found) | (right.isnan() & found.isnan())  # an infinity is equal to itself
    errors = torch.where(same, 0.0, found - right).nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=torch.inf)
    right = torch.where(right.isfinite(), right, 0.0)
    rows, errors = (each.reshape(-1, each.shape[-1] if each.dim() else 1) for each in (right, errors))
    return float((errors.square().mean(-1).sqrt() / _sizes(rows)).max())


def difference(wanted: torch.Tensor, got: torch.Tensor, bound: Bound) -> str:
    """The element that is furthest out, if a row or an element is further than its bound; empty if none is."""
    if wanted.shape != got.shape:
        return f"the shape is {list(got.shape)}, and {list(wanted.shape)} by the reference"
    if not got.numel():
        return ""
    right, found = _numbers(wanted, got.dtype), _numbers(got, got.dtype)
    if got.dtype.is_floating_point or got.dtype.is_complex:
        same = (right == found) | (right.isnan() & found.isnan())
        finite = torch.where(right.isfinite(), right, 0.0)
        sizes = _sizes(finite.reshape(-1, finite.shape[-1] if finite.dim() else 1))
        sizes = sizes.reshape(*finite.shape[:-1], 1) if finite.dim() else sizes[0]
        error = (found - right).abs() / torch.maximum(finite.abs(), sizes)
        wrong = ~same & ~(error <= bound.element)  # not a number is wrong
        if not wrong.any() and row_error(wanted, got) <= bound.row:
            return ""
        error = torch.where(same, 0.0, error).nan_to_num(nan=torch.inf)
    else:
        wrong = wanted != got  # not as float64, which has not all of 64 bits
        error = torch.where(wrong, (found - right).abs().clamp(min=1), 0.0)
        if not wrong.any():
            return ""
    index = tuple(int(i) for i in torch.unravel_index(error.argmax(), error.shape))
    count = int(wrong.sum())
    elements = f"{count} of {wrong.numel()} elements are" if count else "no element is, but a row is"
    place, exact = f"[{', '.join(map(str, index))}]", wanted.is_floating_point() or wanted.is_complex()
    values = (found[index], right[index]) if exact else (got[index], wanted[index])
    said = [f"{float(value):g}" if exact else str(int(value)) for value in values]
    return f"{place} is {said[0]}, and {said[1]} by the reference; {elements} too far"


def _numbers(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """As float64; the parts of complex numbers, and of pairs of 4-bit floats, side by side in a row."""
    numbers = numbers_of(tensor, dtype)
    return numbers.flatten(-2) if numbers.dim() > max(tensor.dim(), 1) else numbers


def _sizes(rows: torch.Tensor) -> torch.Tensor:
    """The root mean square of each row; a tenth of the mean one for those near zero, and never zero."""
    squares = rows.square().mean(-1)
    least = float(squares.mean().sqrt()) / 10
    return squares.sqrt().clamp(min=max(least, float(torch.finfo(torch.float32).tiny)))
