"""Computes results as IEEE 754 defines them: exact arithmetic on fractions, rounded in any direction."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np


def rounded(exact: Fraction, direction: str, dtype: type[np.floating]) -> np.floating:
    """Round ``exact`` to a float: ``rn`` to nearest even, ``rz`` towards zero, ``ru`` up, ``rd`` down."""
    if direction == "rz":
        direction = "rd" if exact > 0 else "ru"
    if exact == 0:
        return dtype(-0.0 if direction == "rd" else 0.0)
    largest = np.finfo(dtype).max
    with np.errstate(over="ignore", under="ignore"):
        try:
            below = dtype(float(exact))
        except OverflowError:
            below = dtype(math.inf if exact > 0 else -math.inf)
        below = min(max(below, -largest), largest)
        while _at_most(below, exact) is False:
            below = np.nextafter(below, dtype(-math.inf))
        while _at_most(above := np.nextafter(below, dtype(math.inf)), exact):
            below = above
        if math.isfinite(below) and Fraction(float(below)) == exact:
            return below
        chosen = {"rd": below, "ru": above}.get(direction)
        chosen = _nearest(exact, below, above, largest) if chosen is None else chosen
    return np.copysign(chosen, dtype(1 if exact > 0 else -1)) if chosen == 0 else chosen


def _at_most(value: np.floating, exact: Fraction) -> bool:
    return bool(value < 0) if math.isinf(value) else Fraction(float(value)) <= exact


def _nearest(exact: Fraction, below: np.floating, above: np.floating, largest: np.floating) -> np.floating:
    step = Fraction(float(largest)) - Fraction(float(np.nextafter(largest, type(largest)(0))))
    low, high = (
        (1 if value > 0 else -1) * (Fraction(float(largest)) + step) if math.isinf(value) else Fraction(float(value))
        for value in (below, above)
    )
    if exact - low != high - exact:
        return below if exact - low < high - exact else above
    bits = np.array([below]).view(f"u{below.itemsize}")[0]
    return above if bits & 1 else below


def root(exact: Fraction) -> Fraction:
    """Return the square root to 200 bits. An inexact root gets one more bit, so that it never looks exact."""
    shift = 2 * (200 + max(0, math.ceil(-math.log2(exact) / 2)))
    scaled = exact.numerator * 2**shift // exact.denominator
    floor = math.isqrt(scaled)
    is_exact = floor * floor == scaled and exact.numerator * 2**shift % exact.denominator == 0
    return Fraction(2 * floor + (not is_exact), 2 ** (shift // 2 + 1))


def reference(
    operation: Callable[..., Fraction], direction: str, dtype: type[np.floating]
) -> Callable[..., np.ndarray]:
    """Return the operation as a function of arrays."""

    def compute(*arrays: np.ndarray) -> np.ndarray:
        columns = [[Fraction(v) for v in array.tolist()] for array in arrays]
        return np.array([rounded(operation(*values), direction, dtype) for values in zip(*columns, strict=True)], dtype)

    return compute
