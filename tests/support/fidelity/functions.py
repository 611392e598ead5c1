"""Mathematical functions, compared with mpmath and between a GPU and the simulator, up to CUDA's documented errors.

Source: CUDA C++ Programming Guide, "Mathematical Functions" and "Intrinsic Functions".
"""

from collections.abc import Callable

import mpmath
import numpy as np
from support.fidelity.case import Bound, ulps
from support.fidelity.rows import Row, table

mpmath.mp.dps = 40


def exactly(function: Callable[..., mpmath.mpf]) -> Callable[..., np.ndarray]:
    """Return the function on arrays, computed with 40 digits and rounded to double."""
    return lambda *arrays: np.array(
        [float(function(*map(mpmath.mpf, v))) for v in zip(*map(np.ndarray.tolist, arrays), strict=True)]
    )


def inputs(dtype: type[np.floating]) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    """Generate x and y as ordinary numbers of both signs up to 10, and z between 0 and 1, also near both ends."""

    def make(generator: np.random.Generator) -> tuple[np.ndarray, ...]:
        x = np.concatenate([generator.standard_normal(192), generator.uniform(-10, 10, 64)])
        y = np.concatenate([generator.standard_normal(192), generator.uniform(0.1, 10, 64)])
        z = np.concatenate([generator.uniform(0.001, 0.999, 192), 2.0 ** -generator.uniform(1, 20, 64)])
        z[-32:] = 1 - z[-32:]
        return tuple(np.ascontiguousarray(v.astype(dtype)) for v in (x, y, z))

    return make


def root_of_squares(*values: mpmath.mpf) -> mpmath.mpf:
    return mpmath.sqrt(sum(v * v for v in values))


def inverse_erfc(y: mpmath.mpf) -> mpmath.mpf:
    return mpmath.erfinv(1 - y)


# Expression with {f} for float's suffix, exact function, CUDA's maximum error in ulps for float and for double.
FUNCTIONS: list[tuple[str, Callable[..., mpmath.mpf], float, float]] = [
    ("rsqrt{f}(z)", lambda x, y, z: 1 / mpmath.sqrt(z), 2, 1),
    ("rcbrt{f}(x)", lambda x, y, z: mpmath.sign(x) / mpmath.cbrt(abs(x)), 1, 1),
    ("sinpi{f}(x)", lambda x, y, z: mpmath.sinpi(x), 1, 2),
    ("cospi{f}(x)", lambda x, y, z: mpmath.cospi(x), 1, 2),
    ("hypot{f}(x, y)", lambda x, y, z: root_of_squares(x, y), 3, 2),
    ("rhypot{f}(x, y)", lambda x, y, z: 1 / root_of_squares(x, y), 2, 1),
    ("norm3d{f}(x, y, z)", root_of_squares, 3, 2),
    ("rnorm3d{f}(x, y, z)", lambda x, y, z: 1 / root_of_squares(x, y, z), 2, 2),
    ("norm4d{f}(x, y, z, x)", lambda x, y, z: root_of_squares(x, y, z, x), 3, 2),
    ("rnorm4d{f}(x, y, z, x)", lambda x, y, z: 1 / root_of_squares(x, y, z, x), 2, 2),
    ("erfinv{f}(z)", lambda x, y, z: mpmath.erfinv(z), 2, 5),
    ("erfinv{f}(-z)", lambda x, y, z: -mpmath.erfinv(z), 2, 5),
    ("erfcinv{f}(z)", lambda x, y, z: inverse_erfc(z), 4, 6),
    ("erfcinv{f}(2 - z)", lambda x, y, z: -inverse_erfc(z), 4, 6),
    ("erfcx{f}(x)", lambda x, y, z: mpmath.exp(x * x) * mpmath.erfc(x), 4, 4),
    ("erfcx{f}(x + 12)", lambda x, y, z: mpmath.exp((x + 12) ** 2) * mpmath.erfc(x + 12), 4, 4),
    ("normcdf{f}(x)", lambda x, y, z: mpmath.erfc(-x / mpmath.sqrt(2)) / 2, 5, 5),
    ("normcdfinv{f}(z)", lambda x, y, z: -mpmath.sqrt(2) * inverse_erfc(2 * z), 5, 8),
    ("cyl_bessel_i0{f}(x)", lambda x, y, z: mpmath.besseli(0, x), 6, 6),
    ("cyl_bessel_i1{f}(x)", lambda x, y, z: mpmath.besseli(1, x), 6, 6),
    ("exp10{f}(x)", lambda x, y, z: mpmath.mpf(10) ** x, 2, 2),
    ("tgamma{f}(y > 0 ? y : -y)", lambda x, y, z: mpmath.gamma(abs(y)), 5, 10),
    ("fdivide{f}(x, y)", lambda x, y, z: x / y, 0, 0),
]
# The documented errors of these functions are absolute, not relative, near their zeros other than x = 0.
ABSOLUTE = {"sinpi", "cospi", "erfcinv", "normcdfinv"}


def function_rows(suffix: str, bits: int) -> list[Row]:
    rows = []
    for text, function, float_ulps, double_ulps in FUNCTIONS:
        absolute = 2.0 ** (1 - bits) if text.split("{")[0] in ABSOLUTE else 0.0
        smallest = 2.0**-149 if bits == 24 else 5e-324
        documented = float_ulps if bits == 24 else double_ulps

        def bound(count: float, smallest: float = smallest, absolute: float = absolute) -> Bound:
            return ulps(count, bits=bits, smallest=smallest, absolute=absolute)

        # Expressions with 2 - z and x + 12 have no reference, because the sum is rounded before the function gets it.
        is_exact = not ("2 - z" in text or "x + 12" in text)
        rows.append(
            Row(text.format(f=suffix), exactly(function) if is_exact else None, bound(3), bound(documented + 3))
        )
    return rows


def fast(expression: str, function: Callable[..., mpmath.mpf], device: Bound, simulator: Bound | None = None) -> Row:
    return Row(expression, exactly(function), simulator or ulps(3), device)


def grows_with_exponent(ulps_at_one: float, factor: float) -> Bound:
    """Bound the error of an exponential, ``2 + floor(|factor * x|)`` ulps, for |x| of at most 10."""
    return ulps(ulps_at_one + abs(factor) * 10)


FAST_ROWS = [
    fast("__expf(x)", lambda x, y, z: mpmath.exp(x), grows_with_exponent(3, 1.173)),
    fast("__exp10f(x)", lambda x, y, z: mpmath.mpf(10) ** x, grows_with_exponent(3, 2.97)),
    fast("__logf(z)", lambda x, y, z: mpmath.log(z), ulps(4, absolute=2.0**-21.41), ulps(2)),
    fast("__log2f(z)", lambda x, y, z: mpmath.log(z, 2), ulps(3, absolute=2.0**-22), ulps(2)),
    fast("__log10f(z)", lambda x, y, z: mpmath.log10(z), ulps(4, absolute=2.0**-24), ulps(2)),
    fast(
        "__sinf(x * 0.3f)",
        lambda x, y, z: mpmath.sin(x * mpmath.mpf("0.3")),
        lambda w: w * 0 + 2.0**-21,
        lambda w: w * 0 + 2.0**-22,
    ),
    fast(
        "__cosf(x * 0.3f)",
        lambda x, y, z: mpmath.cos(x * mpmath.mpf("0.3")),
        lambda w: w * 0 + 2.0**-21,
        lambda w: w * 0 + 2.0**-22,
    ),
    fast("__tanf(z)", lambda x, y, z: mpmath.tan(z), ulps(0, absolute=2.0**-19)),
    fast("__tanhf(x)", lambda x, y, z: mpmath.tanh(x), ulps(0, absolute=2.0**-10.9)),
    fast("__powf(z, x)", lambda x, y, z: z**x, lambda w: abs(w) * 2.0**-16, lambda w: abs(w) * 2.0**-17),
    fast("__fdividef(x, y)", lambda x, y, z: x / y, ulps(2)),
    Row("__fdividef(x, 0x1.8p126f)", lambda x, y, z: np.copysign(np.float32(0), x)),
    Row("__powf(-z, 2.0f)", lambda x, y, z: z * np.float32(np.nan)),
]
CASES = [
    table("float_functions", "float32", function_rows("f", 24), inputs(np.float32)),
    table("double_functions", "float64", function_rows("", 53), inputs(np.float64)),
    table("fast_functions", "float32", FAST_ROWS, inputs(np.float32)),
]
