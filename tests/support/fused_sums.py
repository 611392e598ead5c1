"""Models a tensor core's sums in exact arithmetic: it adds all terms at once, truncated relative to the largest.

Source: arXiv 2511.10909.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

LEAST = {"float32": -126, "bfloat16": -126, "tf32": -126, "float16": -14, "float8_e4m3fn": -6, "float8_e5m2": -14}


def exponent(number: float, least: int) -> int:
    return max(math.frexp(number)[1] - 1, least) if number else -126


def cut(number: Fraction, place: int) -> Fraction:
    """Truncate a number to a multiple of 2 ** place."""
    return Fraction(math.trunc(number / Fraction(2) ** place)) * Fraction(2) ** place


def fused_sum(a: Sequence[float], b: Sequence[float], c: float, dtype: str, kept: int, result_bits: int = 23) -> float:
    """Return c + a[0] * b[0] + ..., truncated ``kept`` bits below the leading bit of the largest term."""
    least = LEAST[dtype]
    terms = [(Fraction(c), exponent(c, -126))]
    terms += [(Fraction(x) * Fraction(y), exponent(x, least) + exponent(y, least)) for x, y in zip(a, b, strict=True)]
    place = max(of for _, of in terms) - kept
    total = sum((cut(number, place) for number, _ in terms), Fraction(0))
    if not total:
        return 0.0
    top = max(math.frexp(float(total))[1] - 1, -126)
    return float(cut(total, top - result_bits))
