"""Integer intrinsics and SIMD within a word, with references in NumPy."""

import re

import numpy as np
from support.fidelity.rows import Row, table


def inputs(generator: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Generate random words, and words of extreme elements, which overflow when added."""
    extremes = generator.choice(np.array([0x00, 0x01, 0x7F, 0x80, 0x81, 0xFF], np.uint8), (3, 1024, 4))
    words = np.concatenate([generator.integers(0, 256, (3, 1024, 4), dtype=np.uint8), extremes], axis=1)
    return tuple(words.view(np.int32)[..., 0])


def elements(x: np.ndarray, bits: int, signed: bool) -> np.ndarray:
    return np.ascontiguousarray(x).view(f"{'i' if signed else 'u'}{bits // 8}").reshape(len(x), -1).astype(np.int64)


def words(x: np.ndarray, bits: int) -> np.ndarray:
    return x.astype(f"u{bits // 8}").view(np.int32)[:, 0]


def clipped(x: np.ndarray, bits: int, signed: bool) -> np.ndarray:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return np.clip(x, low, high)


ELEMENTWISE = {
    "abs": lambda a, b: np.abs(a),
    "add": lambda a, b: a + b,
    "avg": lambda a, b: (a + b + (a + b >= 0)) >> 1,  # away from zero
    "hadd": lambda a, b: (a + b) >> 1,
    "absdiff": lambda a, b: np.abs(a - b),
    "max": np.maximum,
    "min": np.minimum,
    "neg": lambda a, b: -a,
    "sub": lambda a, b: a - b,
}
COMPARISONS = {"eq": np.equal, "ne": np.not_equal, "ge": np.greater_equal, "gt": np.greater} | {
    "le": np.less_equal,
    "lt": np.less,
}
SIMD_NAMES = """
vabs vabsss vadd vaddss vaddus vavgs vavgu vhaddu vcmpeq vcmpges vcmpgeu vcmpgts vcmpgtu vcmples vcmpleu vcmplts vcmpltu
vcmpne vabsdiffu vmaxs vmaxu vmins vminu vseteq vsetges vsetgeu vsetgts vsetgtu vsetles vsetleu vsetlts vsetltu vsetne
vsadu vsub vsubss vsubus vneg vnegss vabsdiffs vsads
""".split()


def simd_row(name: str, count: int) -> Row:
    """Derive the row of an intrinsic from its name: ``vaddss``, for example, adds signed elements and saturates."""
    bits = 32 // count
    pattern = r"v(cmp|set)?(absdiff|hadd|abs|add|avg|sad|max|min|neg|sub|eq|ne|ge|gt|le|lt)(us|ss|u|s)?"
    comparison, operation, suffix = re.fullmatch(pattern, name).groups()
    signed = suffix in ("s", "ss") or operation in ("abs", "neg")

    def reference(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        a, b = elements(x, bits, signed), elements(y, bits, signed)
        if comparison:
            return words(COMPARISONS[operation](a, b) * (2**bits - 1 if comparison == "cmp" else 1), bits)
        if operation == "sad":
            return np.abs(a - b).sum(1).astype(np.int32)
        result = ELEMENTWISE[operation](a, b)
        return words(clipped(result, bits, signed) if suffix in ("us", "ss") else result, bits)

    unary = operation in ("abs", "neg")
    return Row(f"__{name}{count}({'x' if unary else 'x, y'})", reference)


def unsigned(x: np.ndarray) -> np.ndarray:
    """Convert to Python's integers, which do not overflow."""
    return x.view(np.uint32).astype(object)


def wrapped(values: np.ndarray) -> np.ndarray:
    return np.array([int(v) & 0xFFFFFFFF for v in values], np.uint32).view(np.int32)


def shifted(x: np.ndarray, y: np.ndarray, z: np.ndarray, left: bool, clamped: bool) -> np.ndarray:
    count = np.minimum(unsigned(z) % 64, 32) if clamped else unsigned(z) % 32
    joined = unsigned(y) << 32 | unsigned(x)
    return wrapped((joined << count) >> 32 if left else joined >> count)


def dot(x: np.ndarray, y: np.ndarray, z: np.ndarray, x_bits: int, first: int, signed: bool) -> np.ndarray:
    a, b = elements(x, x_bits, signed), elements(y, 8, signed)[:, first : first + 32 // x_bits]
    return wrapped((a * b).sum(1) + z)


def nth_set(mask: int, base: int, offset: int) -> int:
    if offset == 0:
        return base if mask >> base & 1 else -1
    positions = [i for i in (range(base, 32) if offset > 0 else range(base, -1, -1)) if mask >> i & 1]
    return positions[abs(offset) - 1] if abs(offset) <= len(positions) else -1


def permuted(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    results = []
    for low, high, selectors in zip(unsigned(x), unsigned(y), unsigned(z), strict=True):
        result = 0
        for i in range(4):
            byte = (high << 32 | low) >> 8 * (selectors >> 4 * i & 7) & 0xFF  # the selector's top bit is ignored
            result |= byte << 8 * i
        results.append(result)
    return wrapped(np.array(results, object))


SCALAR_ROWS = [
    Row("__popc(x)", lambda x, y, z: [int(v).bit_count() for v in unsigned(x)]),
    Row("__clz(x)", lambda x, y, z: [32 - int(v).bit_length() for v in unsigned(x)]),
    Row("__ffs(x)", lambda x, y, z: [(int(v) & -int(v)).bit_length() for v in unsigned(x)]),
    Row("__brev(x)", lambda x, y, z: wrapped(np.array([int(f"{v:032b}"[::-1], 2) for v in unsigned(x)], object))),
    Row("__byte_perm(x, y, z)", permuted),
    Row("__mulhi(x, y)", lambda x, y, z: x.astype(np.int64) * y >> 32),
    Row("__umulhi(x, y)", lambda x, y, z: wrapped(unsigned(x) * unsigned(y) >> 32)),
    Row("__mul24(x, y)", lambda x, y, z: wrapped((x << 8 >> 8).astype(object) * (y << 8 >> 8))),
    Row("__umul24(x, y)", lambda x, y, z: wrapped((unsigned(x) & 0xFFFFFF) * (unsigned(y) & 0xFFFFFF))),
    Row("__sad(x, y, z)", lambda x, y, z: wrapped(abs(x.astype(object) - y) + unsigned(z))),
    Row("__usad(x, y, z)", lambda x, y, z: wrapped(abs(unsigned(x) - unsigned(y)) + unsigned(z))),
    Row("__hadd(x, y)", lambda x, y, z: (x.astype(np.int64) + y) >> 1),
    Row("__rhadd(x, y)", lambda x, y, z: (x.astype(np.int64) + y + 1) >> 1),
    Row("__uhadd(x, y)", lambda x, y, z: wrapped(unsigned(x) + unsigned(y) >> 1)),
    Row("__urhadd(x, y)", lambda x, y, z: wrapped(unsigned(x) + unsigned(y) + 1 >> 1)),
    Row("__funnelshift_l(x, y, z & 63)", lambda x, y, z: shifted(x, y, z, True, False)),
    Row("__funnelshift_r(x, y, z & 63)", lambda x, y, z: shifted(x, y, z, False, False)),
    Row("__funnelshift_lc(x, y, z & 63)", lambda x, y, z: shifted(x, y, z, True, True)),
    Row("__funnelshift_rc(x, y, z & 63)", lambda x, y, z: shifted(x, y, z, False, True)),
    Row("__dp4a(x, y, z)", lambda x, y, z: dot(x, y, z, 8, 0, True)),
    Row("__dp4a(unsigned(x), unsigned(y), unsigned(z))", lambda x, y, z: dot(x, y, z, 8, 0, False)),
    Row("__dp4a(as<char4>(x), as<char4>(y), z)", lambda x, y, z: dot(x, y, z, 8, 0, True)),
    Row("__dp2a_lo(x, y, z)", lambda x, y, z: dot(x, y, z, 16, 0, True)),
    Row("__dp2a_hi(x, y, z)", lambda x, y, z: dot(x, y, z, 16, 2, True)),
    Row("__dp2a_lo(unsigned(x), unsigned(y), unsigned(z))", lambda x, y, z: dot(x, y, z, 16, 0, False)),
    Row("__dp2a_hi(as<ushort2>(x), as<uchar4>(y), unsigned(z))", lambda x, y, z: dot(x, y, z, 16, 2, False)),
    Row(
        "__fns(x, y & 31, z % 9)",
        lambda x, y, z: [
            nth_set(mask, base & 31, offset)
            for mask, base, offset in zip(unsigned(x), y.tolist(), np.fmod(z, 9).tolist(), strict=True)
        ],
    ),
    Row("__clzll(pair(x, y))", lambda x, y, z: [64 - int(v).bit_length() for v in unsigned(y) << 32 | unsigned(x)]),
    Row("__popcll(pair(x, y))", lambda x, y, z: [int(v).bit_count() for v in unsigned(y) << 32 | unsigned(x)]),
    Row(
        "__umul64hi(pair(x, y), pair(y, z))",
        lambda x, y, z: wrapped((unsigned(y) << 32 | unsigned(x)) * (unsigned(z) << 32 | unsigned(y)) >> 64),
    ),
    Row(
        "umax(x, y) - umin(y, z)",
        lambda x, y, z: wrapped(np.maximum(unsigned(x), unsigned(y)) - np.minimum(unsigned(y), unsigned(z))),
    ),
]
DEFINITIONS = """
template <class T>
__device__ T as(int x) {
    T result;
    memcpy(&result, &x, 4);
    return result;
}
__device__ long long pair(int low, int high) {
    return static_cast<long long>(static_cast<unsigned long long>(high) << 32 | static_cast<unsigned>(low));
}
"""
DPX = {
    "viaddmax": lambda a, b, c, wrap: np.maximum(wrap(a + b), c),
    "viaddmin": lambda a, b, c, wrap: np.minimum(wrap(a + b), c),
    "vimax3": lambda a, b, c, wrap: np.maximum(np.maximum(a, b), c),
    "vimin3": lambda a, b, c, wrap: np.minimum(np.minimum(a, b), c),
    "vimax": lambda a, b, c, wrap: np.maximum(a, b),
    "vimin": lambda a, b, c, wrap: np.minimum(a, b),
    "vibmax": lambda a, b, c, wrap: np.maximum(a, b),
    "vibmin": lambda a, b, c, wrap: np.minimum(a, b),
}
OF_PAIRS = """
template <class Compare>
__device__ int with_flags(unsigned x, unsigned y, Compare compare) {
    bool high, low;
    const unsigned result = compare(x, y, &high, &low);
    return result ^ (high ? 0x10000u : 0) ^ (low ? 1u : 0);
}
template <class Compare>
__device__ int with_flag(int x, int y, Compare compare) {
    bool flag;
    const int result = compare(x, y, &flag);
    return result ^ int(flag);
}
"""


def dpx_row(name: str, suffix: str, relu: bool = False) -> Row:
    """The row of one of CUDA's DPX functions, such as ``__viaddmax_s16x2_relu``. Flags are added by exclusive or."""
    bits, signed, count = 16 if "x2" in suffix else 32, suffix[0] == "s", name.count("3") or name.startswith("viadd")
    function = f"__{name}_{suffix}{'_relu' if relu else ''}"
    text = f"{function}({'x, y, z' if count else 'x, y'})"
    if name.startswith("vib"):
        flags, types = ("with_flags", "unsigned a, unsigned b, bool* h, bool* l") if bits == 16 else ("", "")
        if bits == 32:
            number = "int" if signed else "unsigned"
            flags, types = "with_flag", f"{number} a, {number} b, bool* p"
        passed = ", ".join(one.split()[-1] for one in types.split(", "))
        text = f"{flags}(x, y, []({types}) {{ return {function}({passed}); }})"

    def reference(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        a, b, c = (elements(one, bits, signed) for one in (x, y, z))
        kind = f"{'i' if signed else 'u'}{bits // 8}"
        result = DPX[name](a, b, c, lambda total: total.astype(kind).astype(np.int64))
        if relu:
            result = np.maximum(result, 0)
        if name.startswith("vib"):
            result = result ^ (a >= b if name == "vibmax" else a <= b)
        return words(result, bits)

    return Row(text, reference)


DPX_ROWS = [
    *(
        dpx_row(name, kind)
        for name in DPX
        if name not in ("vimax", "vimin")
        for kind in ("s32", "u32", "s16x2", "u16x2")
    ),
    *(dpx_row(name, kind, True) for name in DPX if not name.startswith("vib") for kind in ("s32", "s16x2")),
]
CASES = [
    table("dpx", "int32", DPX_ROWS, inputs, definitions=OF_PAIRS),
    table("integer_intrinsics", "int32", SCALAR_ROWS, inputs, definitions=DEFINITIONS),
    table("simd_intrinsics", "int32", [simd_row(name, n) for n in (2, 4) for name in SIMD_NAMES], inputs),
]
