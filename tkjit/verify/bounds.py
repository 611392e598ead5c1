"""Decides how large an error of a result may be, by dtype."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tkjit.check.results import numbers_of
from tkjit.spec import Spec, Variant

# Maps a dtype to the largest relative error of a row, for sums and products with inputs and results of that dtype.
# Intermediate values may be rounded to the dtype a few times. The error of one rounding is about eps / 5: the root mean
# square of errors that are spread evenly over +-eps / 2, relative to numbers between two powers of two.
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
_ELEMENT_TO_ROW = 8  # an element's error may be this many times its row's error, because large rows have outliers


@dataclass(frozen=True)
class Bound:
    """The allowed error of a result.

    Parameters
    ----------
    row : float
        The root mean square of a row's errors, divided by the root mean square of the row.
    element : float
        An element's error, divided by the larger of the element and its row's root mean square.
    """

    row: float

    @property
    def element(self) -> float:
        return _ELEMENT_TO_ROW * self.row


def bound_of(spec: Spec, variant: Variant) -> Bound:
    """Return the spec's ``tolerance=``, or else the bound of the coarsest dtype that the call reads or writes.

    The output's dtype is not enough: a float32 sum of bfloat16 products is as exact as float32, but not if intermediate
    results, such as exponentials, are rounded to bfloat16.
    """
    names = {variant.dtype_of(f).name for f in spec.tensors}
    by_type = max((_ROW_TOLERANCE.get(name, 0.0) for name in names), default=0.0)
    return Bound(spec.verification.tolerance or by_type or _ROW_TOLERANCE["float32"])


def row_error(wanted: torch.Tensor, got: torch.Tensor) -> float:
    """Return the largest relative error of any row; a row near zero counts as a tenth of the average row.

    The error is infinite if the shapes differ, or if unequal numbers include an infinity or NaN.
    """
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
    """Describe the element with the largest error if a row or an element exceeds its bound; otherwise return ``""``."""
    if wanted.shape != got.shape:
        return f"the shape is {list(got.shape)}, but {list(wanted.shape)} in the reference"
    if not got.numel():
        return ""
    right, found = _numbers(wanted, got.dtype), _numbers(got, got.dtype)
    if got.dtype.is_floating_point or got.dtype.is_complex:
        same = (right == found) | (right.isnan() & found.isnan())
        finite = torch.where(right.isfinite(), right, 0.0)
        sizes = _sizes(finite.reshape(-1, finite.shape[-1] if finite.dim() else 1))
        sizes = sizes.reshape(*finite.shape[:-1], 1) if finite.dim() else sizes[0]
        error = (found - right).abs() / torch.maximum(finite.abs(), sizes)
        wrong = ~same & ~(error <= bound.element)  # NaN counts as wrong
        if not wrong.any() and row_error(wanted, got) <= bound.row:
            return ""
        error = torch.where(same, 0.0, error).nan_to_num(nan=torch.inf)
    else:
        wrong = wanted != got  # not compared as float64, which cannot represent all 64-bit integers
        error = torch.where(wrong, (found - right).abs().clamp(min=1), 0.0)
        if not wrong.any():
            return ""
    index = tuple(int(i) for i in torch.unravel_index(error.argmax(), error.shape))
    count = int(wrong.sum())
    elements = f"{count} of {wrong.numel()} elements differ too much" if count else "a whole row differs too much"
    place, exact = f"[{', '.join(map(str, index))}]", wanted.is_floating_point() or wanted.is_complex()
    values = (found[index], right[index]) if exact else (got[index], wanted[index])
    one, other = (f"{float(value):g}" if exact else str(int(value)) for value in values)
    return f"{place} is {one}, but {other} in the reference; {elements}"


def _numbers(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Convert to float64. The parts of a complex number or of a 4-bit pair become neighbouring elements of a row."""
    numbers = numbers_of(tensor, dtype)
    return numbers.flatten(-2) if numbers.dim() > max(tensor.dim(), 1) else numbers


def _sizes(rows: torch.Tensor) -> torch.Tensor:
    """Return each row's root mean square, but never zero or less than a tenth of the root mean square of all rows."""
    squares = rows.square().mean(-1)
    least = float(squares.mean().sqrt()) / 10
    return squares.sqrt().clamp(min=max(least, float(torch.finfo(torch.float32).tiny)))
