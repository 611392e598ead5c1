"""half and bfloat16: conversions in all roundings, arithmetic and comparisons, bit for bit.

tests/sim/test_numbers.py tests the simulator for all values of most operations. This file has references for the
remaining ones.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from support.fidelity.exact import rounded
from support.fidelity.rows import Row, table

NAMES = {"half": ("__half", "half"), "bfloat16": ("__nv_bfloat16", "bfloat16")}
INTEGERS = {"short": "short", "ushort": "unsigned short", "int": "int", "uint": "unsigned", "ll": "long long"} | {
    "ull": "unsigned long long"
}


def inputs(generator: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Generate integers of all lengths, whose low 16 bits take any value."""
    lengths = generator.integers(0, 28, (3, 4096))
    return tuple((generator.integers(-(2**31), 2**31, (3, 4096)) >> lengths).astype(np.int32) | 1)


def numbers(name: str, x: np.ndarray) -> np.ndarray:
    """Return the values of the low 16 bits."""
    bits = (x & 0xFFFF).astype(np.uint16)
    if name == "half":
        return bits.view(np.float16).astype(np.float64)
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def of_integer(name: str, direction: str, dtype: type[np.integer]) -> Callable[..., np.ndarray]:
    """Return a reference that rounds an integer x to half or bfloat16, and returns the bits."""

    def half(value: int) -> int:
        return int(rounded(Fraction(value), direction, np.float16).view(np.uint16))

    def bfloat16(value: int) -> int:
        dropped = max(0, abs(value).bit_length() - 8)
        floor, rest = divmod(value, 2**dropped)
        goes_up = {
            "rn": 2 * rest > 2**dropped or (2 * rest == 2**dropped and floor % 2 == 1),
            "rz": value < 0 and rest > 0,
            "ru": rest > 0,
            "rd": False,
        }[direction]
        return int(np.float32((floor + goes_up) * 2.0**dropped).view(np.uint32)) >> 16

    def reference(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        values = x.astype(np.int64).astype(dtype).tolist()
        return np.array([(half if name == "half" else bfloat16)(value) for value in values], np.int32)

    return reference


def complex_multiply_add(part: str) -> Callable[..., np.ndarray]:
    """Return a reference for a part of ``__hcmadd((x, y), (y, x), (x, y))``.

    Each part is two fused multiply-adds, each rounded to half.
    """

    def fused(a: np.float16, b: np.float16, c: np.float16) -> np.float16:
        if not np.isfinite([a, b, c]).all():
            return np.float16(float(a) * float(b) + float(c))
        return rounded(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)), "rn", np.float16)

    def reference(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        results = []
        for a, b in zip(numbers("half", x).astype(np.float16), numbers("half", y).astype(np.float16), strict=True):
            real, imaginary = fused(-b, a, fused(a, b, a)), fused(b, b, fused(a, a, b))
            results.append(real if part == "x" else imaginary)
        values = np.array(results, np.float16)
        return np.where(np.isnan(values), 0x7FFF, values.view(np.uint16)).astype(np.int32)

    return reference


CASTS = {"short": np.int16, "ushort": np.uint16, "int": np.int32, "uint": np.uint32} | {
    "ll": np.int64,
    "ull": np.uint64,
}


def masked(name: str, compare: Callable[..., np.ndarray], of_unordered: bool) -> Callable[..., np.ndarray]:
    def reference(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        masks = []
        for a, b in ((x, y), (y, x)):
            a, b = numbers(name, a), numbers(name, b)
            holds = np.where(np.isnan(a) | np.isnan(b), of_unordered, compare(a, b))
            masks.append(np.where(holds, 0xFFFF, 0))
        return (masks[0] | masks[1] << 16).astype(np.uint32).view(np.int32)

    return reference


COMPARISONS = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater} | {
    "ge": np.greater_equal
}


def conversion_rows(name: str) -> list[Row]:
    cpp, syllable = NAMES[name]
    result = [Row(f"bits(__float2{syllable}_{direction}(__int_as_float(x)))") for direction in ("rn", "rz", "ru", "rd")]
    result += [
        Row(
            f"bits(__{integer}2{syllable}_{direction}(({cast})x))",
            of_integer(name, direction, CASTS[integer]),
        )
        for integer, cast in INTEGERS.items()
        for direction in ("rn", "rz", "ru", "rd")
    ]
    result += [
        Row(f"int(__{syllable}2{integer}_{direction}(number<{cpp}>(x)))")
        for integer in INTEGERS
        for direction in ("rn", "rz", "ru", "rd")
    ]
    return result


def arithmetic_rows(name: str) -> list[Row]:
    cpp = NAMES[name][0]
    a, b, c = (f"number<{cpp}>({v})" for v in "xyz")
    pair, reverse = f"{cpp}2({a}, {b})", f"{cpp}2({b}, {a})"
    result = [
        Row(f"bits({expression})")
        for expression in (
            *(f"__h{operation}{suffix}({a}, {b})" for operation in ("add", "sub", "mul") for suffix in ("", "_sat")),
            *(f"__hfma{suffix}({a}, {b}, {c})" for suffix in ("", "_sat", "_relu")),
            f"{a} / {b}",
            f"__habs({a})",
            *(f"__h{extremum}({a}, {b})" for extremum in ("max", "min", "max_nan", "min_nan")),
            f"hfloor({a})",
            f"hceil({a})",
            f"htrunc({a})",
            f"hrint({a})",
            f"hsqrt({a})",
        )
    ]
    result += [
        Row(f"bits(__hcmadd({pair}, {reverse}, {pair}).{part})", complex_multiply_add(part) if name == "half" else None)
        for part in "xy"
    ]
    result += [
        Row(f"int(__h{text}{'u' * unordered}2_mask({pair}, {reverse}))", masked(name, compare, unordered))
        for text, compare in COMPARISONS.items()
        for unordered in (False, True)
    ]
    return result


# All NaNs become 0x7fff, because little is documented about their sign and payload.
DEFINITIONS = """
template <class T>
__device__ T number(int bits) {
    T result;
    const unsigned short low = bits;
    memcpy(&result, &low, 2);
    return result;
}
template <class T>
__device__ int bits(T value) {
    unsigned short result;
    memcpy(&result, &value, 2);
    return __hisnan(value) ? 0x7fff : result;
}
"""
CASES = [
    table(
        f"{name}_arithmetic",
        "int32",
        [*conversion_rows(name), *arithmetic_rows(name)],
        inputs,
        definitions=DEFINITIONS,
    )
    for name in NAMES
]
