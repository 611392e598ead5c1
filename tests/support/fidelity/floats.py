"""Arithmetic and conversions of float and double in all four roundings; all devices must agree bit for bit."""

import math

import numpy as np
from support.fidelity.exact import reference, root
from support.fidelity.rows import Row, table

DIRECTIONS = ["rn", "rz", "ru", "rd"]
WHOLE = {"rn": np.rint, "rz": np.trunc, "ru": np.ceil, "rd": np.floor}


def floats(generator: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Generate ordinary numbers, any exponents (for cancellation and overflow) and subnormals, but no zeros or NaNs."""
    ordinary = generator.standard_normal((3, 256))
    close = ordinary[:1, :64] + generator.standard_normal((3, 64)) * 2.0**-20
    wide = generator.uniform(1, 2, (3, 128)) * 2.0 ** generator.integers(-126, 127, (3, 128))
    tiny = generator.integers(1, 2**20, (3, 64)) * 2.0**-149
    signs = generator.choice([-1.0, 1.0], (3, 512))
    return tuple((np.concatenate([ordinary, close, wide, tiny], axis=1) * signs).astype(np.float32))


def doubles(generator: np.random.Generator) -> tuple[np.ndarray, ...]:
    ordinary = generator.standard_normal((3, 256))
    wide = generator.uniform(1, 2, (3, 192)) * 2.0 ** generator.integers(-1000, 1000, (3, 192))
    near_float = np.ldexp(1 + generator.integers(0, 2**30, (3, 64)) * 2.0**-30, generator.integers(-140, 128, (3, 64)))
    signs = generator.choice([-1.0, 1.0], (3, 512))
    return tuple(np.concatenate([ordinary, wide, near_float], axis=1) * signs)


def specials(generator: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Generate inputs for conversions: multiples of one half, limits of integers, infinities, NaN."""
    limits = 2.0 ** np.array([7, 8, 15, 16, 31, 32, 63, 64])
    single = np.concatenate([np.arange(-10, 10.5, 0.5), limits, -limits, [np.inf, -np.inf, np.nan, 1e30, -1e30]])
    x = np.concatenate([single, generator.standard_normal(256) * 2.0 ** generator.integers(0, 66, 256)])
    return x, x, x


def arithmetic(dtype: type[np.floating]) -> list[Row]:
    letter, fma = ("f", "__fmaf_{}(x, y, z)") if dtype is np.float32 else ("d", "__fma_{}(x, y, z)")
    operations = {
        f"__{letter}add_{{}}(x, y)": lambda x, y, z: x + y,
        f"__{letter}sub_{{}}(x, y)": lambda x, y, z: x - y,
        f"__{letter}mul_{{}}(x, y)": lambda x, y, z: x * y,
        f"__{letter}div_{{}}(x, y)": lambda x, y, z: x / y,
        fma: lambda x, y, z: x * y + z,
        f"__{letter}rcp_{{}}(x)": lambda x, y, z: 1 / x,
        f"__{letter}sqrt_{{}}(x < 0 ? -x : x)": lambda x, y, z: root(abs(x)),
    }
    return [
        Row(text.format(direction), reference(operation, direction, dtype))
        for text, operation in operations.items()
        for direction in DIRECTIONS
    ]


def to_integer(source: str, target: str, direction: str) -> Row:
    bits = 64 if target.endswith("ll") else 32
    low, high = (0, 2**bits - 1) if target.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    # PTX ISA, "cvt": a NaN becomes 0, or only the top bit if the source or the result has 64 bits.
    of_nan = 2 ** (bits - 1) if bits == 64 or source == "double" else 0

    def convert(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        rounded_values = WHOLE[direction](x).tolist()
        values = [of_nan if math.isnan(v) else int(min(max(v, low), high)) for v in rounded_values]
        return np.array([_as_long_long(v, bits, low < 0) for v in values], np.int64)

    expression = f"__{source}2{target}_{direction}(x)"
    return Row(f"static_cast<long long>({expression})", convert)


def _as_long_long(value: int, bits: int, signed: bool) -> int:
    """Return a value of an integer type after a cast to long long."""
    bits = bits if signed else 64
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def from_integer(source: str, target: str, direction: str, cast: str) -> Row:
    dtype = np.float32 if target == "float" else np.float64

    def convert(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        values = {"int": x.astype(np.int32), "uint": x.astype(np.uint32), "ll": x, "ull": x.astype(np.uint64)}[source]
        return reference(lambda v: v, direction, dtype)(values).astype(np.float64)

    return Row(f"__{source}2{target}_{direction}(static_cast<{cast}>(x))", convert)


def integers(generator: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Generate integers of all lengths, but not 0, because the sign of a zero depends on the rounding."""
    x = generator.integers(-(2**63), 2**63 - 1, 512) >> generator.integers(0, 40, 512) | 1
    return x, x, x


CASTS = {"int": "int", "uint": "unsigned", "ll": "long long", "ull": "unsigned long long"}
FROM_INTEGER = [
    from_integer(source, target, direction, cast)
    for source, cast in CASTS.items()
    for target in ("float", "double")
    for direction in (DIRECTIONS if target == "float" or source.endswith("ll") else ["rn"])
]


def narrowing(direction: str) -> Row:
    narrow = reference(lambda x, y, z: x, direction, np.float32)
    return Row(f"__double2float_{direction}(x)", lambda x, y, z: narrow(x, y, z).astype(np.float64))


BITS = [
    Row("__double2hiint(x)", lambda x, y, z: (x.view(np.int64) >> 32).astype(np.float64)),
    Row("__double2loint(x)", lambda x, y, z: x.view(np.int64).astype(np.int32).astype(np.float64)),
    Row(
        "__hiloint2double(__double2hiint(x), __double2loint(y))",
        lambda x, y, z: (x.view(np.int64) >> 32 << 32 | y.view(np.int64) & 0xFFFFFFFF).view(np.float64),
    ),
]
FLOAT_ROWS = [
    *arithmetic(np.float32),
    *(
        Row(f"__fmaf_ieee_{direction}(x, y, z)", reference(lambda x, y, z: x * y + z, direction, np.float32))
        for direction in DIRECTIONS
    ),
    Row("__saturatef(x)", lambda x, y, z: np.clip(x, np.float32(0), np.float32(1))),
    # The low bits of a tf32 are undefined.
    Row(
        "__uint_as_float(tkjit::to_tf32(x) & ~0x1fffu)",
        lambda x, y, z: (x.view(np.uint32) + 0x1000 & ~np.uint32(0x1FFF)).view(np.float32),
    ),
    Row("min(x, y) - max(y, z)", lambda x, y, z: np.minimum(x, y) - np.maximum(y, z)),
]
CASES = [
    table("float_arithmetic", "float32", FLOAT_ROWS, floats, definitions="#include <tkjit/mma_tf32.cuh>"),
    table("double_arithmetic", "float64", [*arithmetic(np.float64), *map(narrowing, DIRECTIONS), *BITS], doubles),
    table(
        "float_to_integer",
        "float32",
        [to_integer("float", target, d) for target in CASTS for d in DIRECTIONS],
        lambda generator: [x.astype(np.float32) for x in specials(generator)],
        result="int64",
    ),
    table(
        "double_to_integer",
        "float64",
        [to_integer("double", target, d) for target in CASTS for d in DIRECTIONS],
        specials,
        result="int64",
    ),
    table("integer_to_float", "int64", FROM_INTEGER, integers, result="float64"),
]
