"""Conversions between 8-bit floats and float, double, half and bfloat16, with and without saturation, bit for bit."""

import numpy as np
import torch
from support.fidelity.rows import Row, table

FORMATS = {"e4m3": (torch.float8_e4m3fn, 0x7E, 0x7F), "e5m2": (torch.float8_e5m2, 0x7B, 0x7C)}


def values(name: str) -> np.ndarray:
    """Return the values of all 256 codes."""
    return torch.arange(256, dtype=torch.uint8).view(FORMATS[name][0]).double().numpy()


def nearest(name: str, x: np.ndarray, saturates: bool, nan: np.ndarray | int = 0x7F) -> np.ndarray:
    """Round ``x`` (float64) to the nearest code, and ties to even."""
    _, largest, overflow = FORMATS[name]
    finite = values(name)[: largest + 1]
    next_value = 2 * finite[-1] - finite[-2]  # the next value if the format did not end here
    middles = (finite + np.append(finite[1:], next_value)) / 2
    code = np.searchsorted(middles, np.abs(x))  # the first middle that is not below x
    at_middle = (code <= largest) & (np.abs(x) == middles[np.minimum(code, largest)])
    code = np.where(at_middle & (code % 2 == 1), code + 1, code)
    code = np.where(code > largest, largest if saturates else overflow, code)
    return np.where(np.isnan(x), nan, code | np.signbit(x) << 7).astype(np.int32)


def inputs(generator: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Generate all 16-bit patterns as x, and bits of floats as y.

    y contains every value of both formats, every midpoint of two values, and the floats next to all of these.
    """
    exact = np.concatenate([values(name) for name in FORMATS]).astype(np.float32)
    exact = np.unique(exact[np.isfinite(exact)])
    middles = ((exact[:-1].astype(np.float64) + exact[1:]) / 2).astype(np.float32)
    limits = np.float32([448, 464, 480, 57344, 61440, 65536, 1e30, np.inf, np.nan])
    chosen = np.concatenate([exact, middles, limits, -limits])
    chosen = np.concatenate([chosen, np.nextafter(chosen, np.float32(0)), np.nextafter(chosen, np.float32(np.inf))])
    ordinary = (generator.standard_normal(30_000) * 2.0 ** generator.integers(-20, 20, 30_000)).astype(np.float32)
    bits = generator.integers(0, 2**32, 65536 - len(chosen) - len(ordinary), dtype=np.uint32).view(np.float32)
    y = np.concatenate([chosen, ordinary, bits]).view(np.int32)
    x = np.arange(65536, dtype=np.int32)
    return x, y, y[::-1].copy()


def half(x: np.ndarray) -> np.ndarray:
    return x.astype(np.uint16).view(np.float16).astype(np.float64)


def bfloat16(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def single(y: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(y).view(np.float32).astype(np.float64)


def double(y: np.ndarray) -> np.ndarray:
    """Compute the C++ function ``double_of``: a double slightly above the float's value. A NaN keeps its top bits."""
    value = single(y) * (1 + 2.0**-40)
    nan = ((y.astype(np.int64) | 0x7FF80000) << 32).view(np.float64)
    return np.where(np.isnan(value), nan, value)


def nan_of_double(name: str, y: np.ndarray) -> np.ndarray:
    """Convert a NaN as CUDA does: it keeps the sign and, in e5m2, one bit of the payload."""
    bits = double(y).view(np.uint64)
    payload = 0x7F if name == "e4m3" else 0x7E | (bits >> 50 & 1).astype(np.int32)
    return (bits >> 56 & 0x80).astype(np.int32) | payload


def joined(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return high << 8 | low


def narrowing_rows(name: str) -> list[Row]:
    rows = []
    for saturation, saturates in (("__NV_SATFINITE", True), ("__NV_NOSAT", False)):
        options = f"{saturation}, __NV_{name.upper()}"

        def to(x: np.ndarray, saturates: bool = saturates, **options: np.ndarray) -> np.ndarray:
            return nearest(name, x, saturates, **options)

        rows += [
            Row(f"__nv_cvt_float_to_fp8(__int_as_float(y), {options})", lambda x, y, z, to=to: to(single(y))),
            Row(
                f"__nv_cvt_double_to_fp8(double_of(y), {options})",
                lambda x, y, z, to=to: to(double(y), nan=nan_of_double(name, y)),
            ),
            Row(f"__nv_cvt_halfraw_to_fp8(half_of(x), {options})", lambda x, y, z, to=to: to(half(x))),
            Row(f"__nv_cvt_bfloat16raw_to_fp8(bfloat16_of(x), {options})", lambda x, y, z, to=to: to(bfloat16(x))),
            Row(
                f"__nv_cvt_float2_to_fp8x2(make_float2(__int_as_float(y), __int_as_float(z)), {options})",
                lambda x, y, z, to=to: joined(to(single(y)), to(single(z))),
            ),
            Row(
                f"__nv_cvt_halfraw2_to_fp8x2(half2_of(x), {options})",
                lambda x, y, z, to=to: joined(to(half(x)), to(half(x ^ 0x8001))),
            ),
            Row(
                f"__nv_cvt_bfloat16raw2_to_fp8x2(bfloat162_of(x), {options})",
                lambda x, y, z, to=to: joined(to(bfloat16(x)), to(bfloat16(x ^ 0x8001))),
            ),
        ]
    return [*rows, *constructor_rows(name)]


def constructor_rows(name: str) -> list[Row]:
    """Return rows for constructors and casts, which saturate; integers are first converted to float."""

    def to(x: np.ndarray) -> np.ndarray:
        return nearest(name, x, True)

    def four(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        codes = [to(v).astype(np.uint32) for v in (single(y), single(z), half(x), bfloat16(x))]
        return (codes[0] | codes[1] << 8 | codes[2] << 16 | codes[3] << 24).view(np.int32)

    fp8, x2, x4 = (f"__nv_fp8{suffix}_{name}" for suffix in ("", "x2", "x4"))
    y_and_z = "__int_as_float(y), __int_as_float(z)"
    return [
        Row(f"{fp8}(__int_as_float(y)).__x", lambda x, y, z: to(single(y))),
        Row(f"{fp8}(__half(half_of(x))).__x", lambda x, y, z: to(half(x))),
        Row(f"{fp8}(__nv_bfloat16(bfloat16_of(x))).__x", lambda x, y, z: to(bfloat16(x))),
        Row(f"{fp8}(x - 32768).__x", lambda x, y, z: to((x - 32768).astype(np.float64))),
        Row(
            f"{fp8}(pair(x, y)).__x",
            lambda x, y, z: to(((y.astype(np.int64) << 32) | x).astype(np.float32).astype(np.float64)),
        ),
        Row(f"{x2}(make_float2({y_and_z})).__x", lambda x, y, z: joined(to(single(y)), to(single(z)))),
        Row(f"{x2}(__half2(half2_of(x))).__x", lambda x, y, z: joined(to(half(x)), to(half(x ^ 0x8001)))),
        Row(
            f"int({x4}(make_float4({y_and_z}, float(__half(half_of(x))), float(__nv_bfloat16(bfloat16_of(x))))).__x)",
            four,
        ),
    ]


def widening_rows(name: str) -> list[Row]:
    def of(x: np.ndarray) -> np.ndarray:
        return values(name)[x & 0xFF]

    def half_bits(x: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            bits = of(x).astype(np.float16).view(np.uint16).astype(np.int32)
        return np.where(np.isnan(of(x)), 0x7FFF, bits)

    def float_bits(x: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(of(x)), 0x7FFFFFFF, of(x).astype(np.float32).view(np.int32))

    def whole(x: np.ndarray, low: int, high: int) -> np.ndarray:
        return np.nan_to_num(np.clip(np.trunc(of(x)), low, high), nan=0.0).astype(np.int64).astype(np.int32)

    fp8 = f"code<__nv_fp8_{name}>(x)"
    pair, four = f"code<__nv_fp8x2_{name}>(x)", f"code<__nv_fp8x4_{name}>(x)"
    return [
        Row(f"__nv_cvt_fp8_to_halfraw(x & 0xff, __NV_{name.upper()}).x", lambda x, y, z: half_bits(x)),
        Row(f"__nv_cvt_fp8x2_to_halfraw2(x, __NV_{name.upper()}).y", lambda x, y, z: half_bits(x >> 8)),
        Row(f"__float_as_int(float({fp8}))", lambda x, y, z: float_bits(x)),
        Row(f"__float_as_int(float(double({fp8})))", lambda x, y, z: float_bits(x)),
        Row(f"__half_raw(__half({fp8})).x", lambda x, y, z: half_bits(x)),
        Row(
            f"__nv_bfloat16_raw(__nv_bfloat16({fp8})).x",
            lambda x, y, z: np.where(np.isnan(of(x)), 0x7FFF, float_bits(x) >> 16 & 0xFFFF),
        ),
        Row(f"int({fp8})", lambda x, y, z: whole(x, -(2**31), 2**31 - 1)),
        Row(f"(unsigned char)({fp8})", lambda x, y, z: whole(x, 0, 255)),
        Row(f"(signed char)({fp8})", lambda x, y, z: whole(x, -128, 127)),
        Row(f"(unsigned short)({fp8})", lambda x, y, z: whole(x, 0, 65535)),
        Row(f"bool({fp8})", lambda x, y, z: of(x) != 0),
        Row(f"__float_as_int({pair}.operator float2().y)", lambda x, y, z: float_bits(x >> 8)),
        Row(f"__float_as_int({four}.operator float4().z)", lambda x, y, z: float_bits(x >> 2)),
    ]


DEFINITIONS = """
__device__ __half_raw half_of(int bits) { __half_raw raw; raw.x = bits; return raw; }
__device__ __nv_bfloat16_raw bfloat16_of(int bits) { __nv_bfloat16_raw raw; raw.x = bits; return raw; }
__device__ __half2_raw half2_of(int bits) { __half2_raw raw; raw.x = bits; raw.y = bits ^ 0x8001; return raw; }
__device__ __nv_bfloat162_raw bfloat162_of(int bits) {
    __nv_bfloat162_raw raw;
    raw.x = bits, raw.y = bits ^ 0x8001;
    return raw;
}
__device__ double double_of(int bits) {
    const float value = __int_as_float(bits);
    return value == value ? value * (1 + 0x1p-40) : __hiloint2double(bits | 0x7ff80000, 0);
}
__device__ long long pair(int low, int high) { return (static_cast<long long>(high) * (1ll << 32)) | low; }
// A value of type T with the bits of x; for four codes, the third one is x >> 2.
template <class T>
__device__ T code(int x) {
    T result;
    result.__x = sizeof(T) == 4 ? (x >> 2 & 0xff) << 16 : x;
    return result;
}
"""
CASES = [
    table(
        "fp8_conversions",
        "int32",
        [row for name in FORMATS for row in [*narrowing_rows(name), *widening_rows(name)]],
        inputs,
        definitions=DEFINITIONS,
    )
]
