"""half, bfloat16 and the intrinsics, bit for bit, with and without F16C instructions."""

import math

import numpy as np
import pytest
import torch
from support.simulator.compiled import SOURCES, Library, compile_source

# NumPy warns about the NaNs and overflows that these tests are about.
pytestmark = [pytest.mark.compiles, pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")]

GENERATOR = np.random.default_rng(0)
ALL_BITS = np.arange(65536, dtype=np.uint16)
CANONICAL_NAN = 0x7FFF
TYPES = ["half", "bfloat16"]


@pytest.fixture(scope="module", params=["-march=x86-64-v3", pytest.param("-march=x86-64", marks=pytest.mark.slow)])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Library:
    return compile_source(SOURCES / "numbers.cu", tmp_path_factory.mktemp("numbers"), request.param)


def run(library: Library, name: str, *arrays: np.ndarray) -> None:
    assert library.launch(name, 1, 1, *arrays, len(arrays[0])) is None


def values(name: str, bits: np.ndarray) -> np.ndarray:
    """Return the numbers that ``bits`` encode, as float64."""
    if name == "half":
        return bits.view(np.float16).astype(np.float64)
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def rounded(name: str, x: np.ndarray) -> np.ndarray:
    """Round ``x`` (float32, or float64 for half only) to nearest even with NumPy or torch, and return its bits."""
    if name == "half":
        bits = x.astype(np.float16).view(np.uint16)
    else:
        bits = torch.from_numpy(x.astype(np.float32)).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    return np.where(np.isnan(x), np.uint16(CANONICAL_NAN), bits)


def interesting_floats(name: str) -> np.ndarray:
    """Return every value of the type, every midpoint of two, their neighbours in float32, and random bits."""
    exact = values(name, ALL_BITS).astype(np.float32)
    positive = values(name, ALL_BITS[: 0x7C00 if name == "half" else 0x7F80])
    midpoints = ((positive[:-1] + positive[1:]) / 2).astype(np.float32)
    around = np.concatenate([midpoints, np.nextafter(midpoints, 0), np.nextafter(midpoints, np.float32(np.inf))])
    limits = np.float32([65519.996, 65520, 65536, 3.4028235e38, np.inf, np.nan, 1e-45, 2.9802322e-8, 2.9802326e-8])
    random = GENERATOR.integers(0, 2**32, 1_000_000, dtype=np.uint32).view(np.float32)
    x = np.concatenate([exact, around, limits, random])
    return np.concatenate([x, -x])


@pytest.mark.slow  # converts every value of each type
@pytest.mark.parametrize("name", [*TYPES, "portable_half"])
def test_all_values_widen_exactly(library, name):
    result = np.zeros(65536, np.float32)
    run(library, f"{name}_to_float", ALL_BITS, result)
    np.testing.assert_array_equal(result, values(name.removeprefix("portable_"), ALL_BITS).astype(np.float32))
    if name != "bfloat16":
        assert (result.view(np.uint32)[np.isnan(result)] == 0x7FFFFFFF).all()


@pytest.mark.parametrize("name", TYPES)
def test_narrowing_rounds_to_nearest_even(library, name):
    x = interesting_floats(name)
    result = np.zeros(len(x), np.uint16)
    run(library, f"{name}_from_float", x, result)
    np.testing.assert_array_equal(result, rounded(name, x))


def test_portable_narrowing(library):
    x = interesting_floats("half")
    result = np.zeros(len(x), np.uint16)
    run(library, "portable_float_to_half", x, result)
    np.testing.assert_array_equal(result, rounded("half", x))


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("direction", ["rz", "ru", "rd"])
def test_directed_narrowing(library, name, direction):
    x = interesting_floats(name)
    x = x[~np.isnan(x)]
    result = np.zeros(len(x), np.uint16)
    run(library, f"{name}_from_float_{direction}", x, result)
    got = values(name, result)
    nearest = values(name, rounded(name, x))
    wide = x.astype(np.float64)
    upwards = {"ru": np.full(len(x), True), "rd": np.full(len(x), False), "rz": np.signbit(x)}[direction]
    assert (got[nearest == wide] == wide[nearest == wide]).all()
    assert (got[upwards] >= wide[upwards]).all()
    assert (got[~upwards] <= wide[~upwards]).all()
    step = np.abs(result.astype(int) - rounded(name, x).astype(int))
    assert step.max() <= 1
    assert (np.signbit(got) == np.signbit(wide)).all()


@pytest.mark.parametrize("name, bits", [("half", 11), ("bfloat16", 8)])
def test_double_and_integers_are_rounded_once(library, name, bits):
    # Some values are so close to a midpoint that float32 cannot tell them from it; for the longest integers, not even
    # float64 can.
    ulp = 2.0 ** (1 - bits)
    midpoint = 1 + ulp / 2
    x = np.array([midpoint, midpoint + 2.0**-40, midpoint - 2.0**-40, midpoint + ulp, math.nan, 1e300, -1e-300])
    result = np.zeros(len(x), np.uint16)
    run(library, f"{name}_from_double", x, result)
    got = values(name, result)
    np.testing.assert_array_equal(got, [1, 1 + ulp, 1, 1 + 2 * ulp, math.nan, math.inf, -0.0])
    assert result[4] == CANONICAL_NAN and result[6] == 0x8000

    if name == "bfloat16":
        integers = np.array([257 << 50, (257 << 50) + 1, (257 << 50) - 1, (259 << 50), -(257 << 50) - 1, 2**63 - 1])
        expected = [256 << 50, 258 << 50, 256 << 50, 260 << 50, -(258 << 50), 2**63]
    else:
        integers = np.array([2049, 2050, 2051, 65519, 65520, -(2**63), 2**62])
        expected = [2048, 2050, 2052, 65504, math.inf, -math.inf, math.inf]
    result = np.zeros(len(integers), np.uint16)
    run(library, f"{name}_from_long", integers, result)
    np.testing.assert_array_equal(values(name, result), np.array(expected, float))

    small = GENERATOR.integers(-(2**31), 2**31, 10_000).astype(np.int32) >> GENERATOR.integers(0, 31, 10_000)
    small = small.astype(np.int32)
    result = np.zeros(len(small), np.uint16)
    run(library, f"{name}_from_int", small, result)
    exponent = np.frexp(np.abs(small).astype(float))[1]
    unit = 2.0 ** np.maximum(exponent - bits, -24)
    expected = np.rint(small / unit) * unit  # np.rint rounds to even
    if name == "half":
        expected = np.where(np.abs(expected) > 65504, np.copysign(np.inf, expected), expected)
    np.testing.assert_array_equal(values(name, result), expected)


@pytest.mark.parametrize("name", TYPES)
def test_conversion_to_integers_truncates_and_saturates(library, name):
    x = values(name, ALL_BITS)
    for target, low, high in [("int", -(2**31), 2**31 - 1), ("uchar", 0, 255), ("int_rn", -(2**31), 2**31 - 1)]:
        result = np.zeros(65536, np.uint8 if target == "uchar" else np.int32)
        run(library, f"{name}_to_{target}", ALL_BITS, result)
        whole = np.rint(x) if target.endswith("rn") else np.trunc(x)
        np.testing.assert_array_equal(result, np.nan_to_num(np.clip(whole, low, high), nan=0.0).astype(np.int64))


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("operation", ["add", "sub", "mul", "div"])
def test_arithmetic_is_rounded_once(library, name, operation):
    a, b = GENERATOR.integers(0, 65536, (2, 500_000)).astype(np.uint16)
    result = np.zeros_like(a)
    run(library, f"{name}_{operation}", a, b, result)
    x, y = values(name, a), values(name, b)
    exact = {"add": x + y, "sub": x - y, "mul": x * y, "div": x / y}[operation]
    expected = rounded(name, exact if name == "half" else exact.astype(np.float32))
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("name, bits", [("half", 11), ("bfloat16", 8)])
def test_fused_multiply_add_is_rounded_once(library, name, bits):
    ulp = 2.0 ** (1 - bits)
    # 1.5 (1 + ulp) is half way between 1.5 + ulp and 1.5 + 2 ulp: the sign of a tiny addend decides.
    tiny = 2.0**-24 if name == "half" else 2.0**-130
    product = np.array([[1.5, 1 + ulp]] * 3 + [[math.inf, 0.0], [3.0, 5.0]])
    addend = np.array([0.0, tiny, -tiny, 1.0, -15.0])
    as_bits = [rounded(name, x.astype(np.float32)) for x in (product[:, 0].copy(), product[:, 1].copy(), addend)]
    result = np.zeros(5, np.uint16)
    run(library, f"{name}_fma", *as_bits, result)
    np.testing.assert_array_equal(values(name, result), [1.5 + 2 * ulp, 1.5 + 2 * ulp, 1.5 + ulp, math.nan, 0.0])

    a, b, c = GENERATOR.standard_normal((3, 100_000)).astype(np.float32)
    a, b, c = (rounded(name, x) for x in (a, b, c))
    result = np.zeros_like(a)
    run(library, f"{name}_fma", a, b, c, result)
    exact = values(name, a) * values(name, b) + values(name, c)
    assert np.abs(values(name, result) - exact).max() <= ulp * np.abs(exact).max()
    assert (np.abs(values(name, result) - exact) <= ulp / 2 * 2.0 ** np.floor(np.log2(np.abs(exact) + 1e-30))).all()


@pytest.mark.parametrize("name", TYPES)
def test_comparisons_and_extrema(library, name):
    specials = rounded(name, np.float32([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-7, 65504.0]))
    a, b = (x.ravel().copy() for x in np.meshgrid(specials, specials))
    x, y = values(name, a), values(name, b)
    result = np.zeros(len(a), np.int32)
    run(library, f"{name}_compare", a, b, result)
    unordered = np.isnan(x) | np.isnan(y)
    expected = [x < y, x <= y, x == y, x != y, x > y, x >= y, (x != y) & ~unordered, (x < y) | unordered]
    np.testing.assert_array_equal(result, sum(bit.astype(int) << i for i, bit in enumerate(expected)))

    largest = np.zeros_like(a)
    run(library, f"{name}_max", a, b, largest)
    np.testing.assert_array_equal(values(name, largest), np.fmax(x, y))
    both_zero = (x == 0) & (y == 0)
    np.testing.assert_array_equal(largest[both_zero] == 0x8000, (np.signbit(x) & np.signbit(y))[both_zero])
    smallest = np.zeros_like(a)
    run(library, f"{name}_min_nan", a, b, smallest)
    np.testing.assert_array_equal(values(name, smallest), np.minimum(x, y))


@pytest.mark.parametrize("name", TYPES)
def test_pairs(library, name):
    a, b = (rounded(name, GENERATOR.standard_normal(2000).astype(np.float32)).reshape(1000, 2) for _ in range(2))
    result, as_floats = np.zeros_like(a), np.zeros((1000, 2), np.float32)
    run(library, f"{name}_pairs", a, b, result, as_floats)
    x, y = values(name, a), values(name, b)
    relative = 2.0**-11 if name == "half" else 2.0**-8
    np.testing.assert_allclose(values(name, result), x[:, ::-1] * y + y, rtol=relative, atol=1e-7)
    np.testing.assert_array_equal(as_floats, values(name, rounded(name, (x + np.array([1, 2])).astype(np.float32))))


def test_half_and_bfloat16_convert_into_each_other(library):
    bfloat16, half = np.zeros((2, 65536), np.uint16)
    run(library, "cross_conversion", ALL_BITS, bfloat16, half)
    np.testing.assert_array_equal(bfloat16, rounded("bfloat16", values("half", ALL_BITS).astype(np.float32)))
    np.testing.assert_array_equal(half, rounded("half", values("bfloat16", bfloat16)))


def test_float_to_integer_saturates(library):
    x = np.float32([0.5, 1.5, -0.5, -1.5, 2.5, 1e10, -1e10, np.inf, -np.inf, np.nan, 2**31, -(2**31), 1e19, -1e19, 7.9])
    rn, rz, ru, rd = np.zeros((4, len(x)), np.int32)
    unsigned, wide = np.zeros(len(x), np.uint32), np.zeros(len(x), np.int64)
    run(library, "float_to_integers", x, rn, rz, ru, rd, unsigned, wide)
    for result, whole in [(rn, np.rint(x)), (rz, np.trunc(x)), (ru, np.ceil(x)), (rd, np.floor(x))]:
        expected = [0 if math.isnan(v) else int(min(max(float(v), -(2**31)), 2**31 - 1)) for v in whole]
        np.testing.assert_array_equal(result, expected)
    expected = [0 if math.isnan(v) else int(min(max(float(v), 0), 2**32 - 1)) for v in np.rint(x)]
    np.testing.assert_array_equal(unsigned, expected)
    # PTX ISA, "cvt": a NaN becomes 0 in 32 bits, but in 64 bits an integer with only the top bit set.
    expected = [
        -(2**63) if math.isnan(v) or v <= -(2**63) else 2**63 - 1 if v >= 2**63 else int(v) for v in np.trunc(x)
    ]
    np.testing.assert_array_equal(wide, expected)


def test_integer_intrinsics(library):
    x = np.concatenate([np.uint32([0, 1, 2**31, 2**32 - 1]), GENERATOR.integers(0, 2**32, 100, dtype=np.uint32)])
    result = np.zeros((len(x), 8), np.uint32)
    run(library, "bits", x, result)
    for value, row in zip((int(v) for v in x), result, strict=True):
        inverted = value ^ 0xFFFFFFFF
        byte_2 = value >> 16 & 0xFF  # selector 0xa, whose top bit an H100 ignores
        assert list(row) == [
            value.bit_count(),
            32 - value.bit_length(),
            (value & -value).bit_length(),
            int(f"{value:032b}"[::-1], 2),
            (value & 0xFF) | (value >> 24) << 8 | byte_2 << 16 | (inverted >> 24) << 24,
            value * 0x9E3779B9 >> 32,
            (0x12345678 << 12 | value >> 20) & 0xFFFFFFFF,
            value & 0x7F7FFFFF,
        ]


def test_rounded_intrinsics_are_not_contracted(library):
    x = GENERATOR.standard_normal(1000).astype(np.float32)
    result = np.ones(1000, np.float32)
    run(library, "no_contraction", x, result)
    assert (result == 0).all()


def test_min_and_max_of_mixed_types_agree_with_cuda(library):
    result = np.zeros(8, np.float32)
    assert library.launch("extrema", 1, 1, result, 1) is None
    np.testing.assert_array_equal(result, np.float32([3, 2, 2.5, 1, 6, 0, 0.5, 2**32]))


@pytest.mark.parametrize(
    "name, integer, one, quiet, signalling, canonical",
    [
        ("float", np.uint32, 0x3F800000, 0x7FC00000, 0xFF800001, 0x7FFFFFFF),
        ("overloaded", np.uint32, 0x3F800000, 0x7FC00000, 0x7FA00000, 0x7FFFFFFF),
        ("double", np.uint64, 0x3FF << 52, 0x7FF8 << 48, 0x7FF4 << 48, 0x7FFFFFFFFFFFFFFF),
        ("half", np.uint16, 0x3C00, 0x7E00, 0x7D00, 0x7FFF),
        ("bfloat16", np.uint16, 0x3F80, 0x7FC0, 0x7FA0, 0x7FFF),
    ],
)
def test_min_and_max_of_nans_and_zeros(library, name, integer, one, quiet, signalling, canonical):
    """Like PTX's `min` and `max`, they return the other operand for any NaN, and put -0 below +0."""
    zero, minus_zero = 0, 1 << (8 * np.dtype(integer).itemsize - 1)
    cases = [(nan, one, one, one) for nan in (quiet, signalling)]
    cases += [(signalling, signalling, canonical, canonical), (quiet, signalling, canonical, canonical)]
    cases += [
        (zero, minus_zero, minus_zero, zero),
        (zero, one, zero, one),
        (one, one | minus_zero, one | minus_zero, one),
    ]
    for a, b, smaller, larger in cases:
        for x, y in ((a, b), (b, a)):
            result = np.zeros(2, integer)
            run(library, f"{name}_extrema", np.array([x], integer), np.array([y], integer), result)
            assert result.tolist() == [smaller, larger], (hex(x), hex(y), *map(hex, result.tolist()))
