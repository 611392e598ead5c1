"""Blackwell's tensor memory and products (`tcgen05`), and blocks that take the work of others (`clusterlaunchcontrol`).

The expected places follow the figures of the PTX ISA, "TensorCore 5th Generation Family Instructions".
"""

from __future__ import annotations

import pytest
import torch
from support.tcgen05.kernels import (
    CASES,
    PAIRS_OPERANDS,
    SHAPES,
    SOURCES,
    STEPS,
    copied,
    define_for_blackwell,
    mistaken,
    moved,
    multiplied,
    multiplied_by_pair,
    pairs,
    squares,
)

from tkjit import LaunchError

pytestmark = pytest.mark.compiles

# ---- loads and stores


def place(shape: str, thread: int, register: int) -> tuple[int, int]:
    """Return the lane and the column of a thread's register. The figures of `tcgen05.ld`."""
    quarter, lane = 32 * (thread // 32), thread % 32
    if shape == "32x32b":
        return quarter + lane, register
    if shape == "16x32bx2":
        return quarter + lane % 16, register + 16 * (lane // 16)
    if shape == "16x64b":  # pairs of lanes have a row and the eighth one after it
        return quarter + lane // 4 + 8 * (lane % 2), 2 * register + lane % 4 // 2
    if shape == "16x128b":
        return quarter + lane // 4 + 8 * (register % 2), register // 2 * 4 + lane % 4
    return quarter + lane // 4 + 8 * (register // 2 % 2), register // 4 * 8 + 2 * (lane % 4) + register % 2


@pytest.mark.parametrize("which", range(len(CASES)), ids=[f"{shape}{'-packed' * packs}" for shape, packs in CASES])
def test_the_places_of_a_warps_registers(which):
    shape, packs = CASES[which]
    count = SHAPES[shape] * STEPS
    _, stored = moved(torch.tensor([which, 0], dtype=torch.int32))
    loaded, _ = moved(torch.tensor([which, 1], dtype=torch.int32))
    expected_words, expected_registers = torch.zeros(128, 64, dtype=torch.int32), torch.full((128, 16), -1).int()
    for thread in range(128):
        for register in range(count):
            lane, column = place(shape, thread, register)
            value = 1000 * thread + register
            if not packs:
                expected_words[lane, column] = value
                expected_registers[thread, register] = 64 * lane + column
                continue
            # each register holds two columns of 16 bits; the second half of 16x32bx2 still begins at column 16
            split = 16 if column >= 16 and shape == "16x32bx2" else 0
            column = 2 * (column - split) + split
            expected_words[lane, column], expected_words[lane, column + 1] = value & 0xFFFF, value >> 16
            expected_registers[thread, register] = 64 * lane + column | (64 * lane + column + 1) << 16
    assert torch.equal(stored, expected_words)
    assert torch.equal(loaded, expected_registers)


# ---- products

# kind, and the code of the element type in the instruction descriptor
ELEMENTS = {
    torch.float16: (0, 0),
    torch.bfloat16: (0, 1),
    torch.float32: (1, 2),
    torch.float8_e4m3fn: (2, 0),
    torch.float8_e5m2: (2, 1),
    torch.uint8: (3, 0),
    torch.int8: (3, 1),
}
SUMS = {torch.float16: 0, torch.float32: 1, torch.int32: 2}


def instruction(
    m: int, n: int, dtype: torch.dtype, sums: torch.dtype, *, by_columns: bool = False, by_rows: bool = False
) -> int:
    code = ELEMENTS[dtype][1]
    return SUMS[sums] << 4 | code << 7 | code << 10 | by_columns << 15 | by_rows << 16 | n >> 3 << 17 | m >> 4 << 24


def as_bytes(matrix: torch.Tensor, size: int) -> torch.Tensor:
    """Rows of 32 bytes in the canonical layout without a swizzle: first all left halves, then all right ones."""
    rows = matrix.contiguous().view(torch.uint8).reshape(-1, 2, 16).transpose(0, 1).reshape(-1)
    return torch.nn.functional.pad(rows, (0, size - len(rows)))


def small(rows: int, dtype: torch.dtype) -> torch.Tensor:
    """Small integers, whose sums are exact in every format."""
    k = 32 // dtype.itemsize
    low = 0 if dtype == torch.uint8 else -2
    return torch.randint(low, 3, (rows, k)).to(dtype)


def rows_of(d: torch.Tensor, m: int, n: int, sums: torch.dtype) -> torch.Tensor:
    """Read D: 128 rows are the lanes; of 64 rows, each quarter of the lanes has 16."""
    lanes = d if m == 128 else d.reshape(4, 32, -1)[:, :16].reshape(64, -1)
    words = lanes[:, :n]
    return (
        words.view(torch.float32)
        if sums == torch.float32
        else words.to(torch.int16).view(torch.float16)
        if sums == torch.float16
        else words
    )


@pytest.mark.parametrize("m", [64, 128])
@pytest.mark.parametrize(
    ("dtype", "sums"),
    [
        (torch.float16, torch.float32),
        (torch.float16, torch.float16),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float8_e4m3fn, torch.float32),
        (torch.float8_e5m2, torch.float16),
        (torch.uint8, torch.int32),
        (torch.int8, torch.int32),
    ],
)
def test_a_product_of_each_kind(m, dtype, sums):
    for n in (m // 8, 144, 256):
        a, b = small(m, dtype), small(n, dtype)
        # 16 bytes of all rows are a unit of K, so units are 16 * rows apart, and eight rows are 128 bytes apart
        how = [ELEMENTS[dtype][0], instruction(m, n, dtype, sums), 0, 3, 16 * m, 128, 16 * n, 128, 0]
        d = multiplied(as_bytes(a, 4096), as_bytes(b, 8192), torch.tensor(how, dtype=torch.int32))
        assert torch.equal(rows_of(d, m, n, sums).double(), 3 * (a.double() @ b.double().T))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn])
def test_operands_that_are_contiguous_along_m_and_n(dtype):
    m, n, width = 128, 64, 16 // dtype.itemsize  # a unit of 16 bytes has `width` rows
    k = 32 // dtype.itemsize
    a, b = small(m, dtype), small(n, dtype)

    def by_rows(matrix: torch.Tensor, size: int) -> torch.Tensor:  # units of eight k: (k / 8, rows / width, 8, width)
        units = matrix.view(torch.uint8).reshape(-1, width, k // 8, 8, dtype.itemsize).permute(2, 0, 3, 1, 4)
        return torch.nn.functional.pad(units.reshape(-1), (0, size - units.numel()))

    code = instruction(m, n, dtype, torch.float32, by_columns=True, by_rows=True)
    # without a swizzle, the stride is between units of rows, and the leading one between units of eight k
    how = [ELEMENTS[dtype][0], code, 0, 1, 128 * m // width, 128, 128 * n // width, 128, 0]
    d = multiplied(by_rows(a, 4096), by_rows(b, 8192), torch.tensor(how, dtype=torch.int32))
    assert torch.equal(rows_of(d, m, n, torch.float32), a.float() @ b.float().T)


def test_a_from_tensor_memory():
    a, b = small(128, torch.bfloat16), small(32, torch.bfloat16)
    how = [0, instruction(128, 32, torch.bfloat16, torch.float32), 1, 2, 0, 0, 16 * 32, 128, 64]
    d = multiplied(a.view(torch.uint8).reshape(-1), as_bytes(b, 8192), torch.tensor(how, dtype=torch.int32))
    assert torch.equal(rows_of(d[:, 64:].contiguous(), 128, 32, torch.float32), 2 * (a.float() @ b.float().T))


# e2m3, e3m2 and e2m1: their codes in the instruction descriptor, their bits, and the values of all patterns
def values_of(exponent_bits: int, mantissa_bits: int) -> torch.Tensor:
    bias, patterns = 2 ** (exponent_bits - 1) - 1, torch.arange(2 ** (exponent_bits + mantissa_bits))
    exponent, mantissa = patterns >> mantissa_bits, (patterns % 2**mantissa_bits) / 2**mantissa_bits
    magnitudes = torch.where(exponent > 0, torch.exp2(exponent - bias) * (1 + mantissa), 2.0 ** (1 - bias) * mantissa)
    return torch.cat([magnitudes, -magnitudes])


@pytest.mark.parametrize(("code", "exponent_bits", "mantissa_bits"), [(3, 2, 3), (4, 3, 2), (5, 2, 1)])
def test_elements_of_fewer_bits_than_a_byte(code, exponent_bits, mantissa_bits):
    bits, values = 1 + exponent_bits + mantissa_bits, values_of(exponent_bits, mantissa_bits)
    m, n = 128, 64
    patterns = [torch.randint(0, 2**bits, (rows, 32)) for rows in (m, n)]

    def packed(each: torch.Tensor) -> torch.Tensor:  # 16 elements at the beginning of 16 bytes
        stream = (each.reshape(-1, 2, 16, 1) >> torch.arange(bits) & 1).reshape(-1, 2, 16 * bits)
        stream = torch.nn.functional.pad(stream, (0, 128 - 16 * bits)).reshape(-1, 2, 16, 8)
        return (stream << torch.arange(8)).sum(-1).to(torch.uint8).reshape(-1, 32)

    instruction = 1 << 4 | code << 7 | code << 10 | n >> 3 << 17 | m >> 4 << 24
    how = torch.tensor([2, instruction, 0, 1, 16 * m, 128, 16 * n, 128, 0], dtype=torch.int32)
    d = multiplied(as_bytes(packed(patterns[0]), 4096), as_bytes(packed(patterns[1]), 8192), how)
    a, b = (values[each] for each in patterns)
    assert torch.equal(rows_of(d, m, n, torch.float32), a @ b.T)


def test_negated_operands_disabled_lanes_and_scaled_sums():
    a, b = small(128, torch.bfloat16), small(64, torch.bfloat16)
    negative = 1 << 13 | instruction(128, 64, torch.bfloat16, torch.float32)
    how = torch.tensor([4, negative, 0, 2, 16 * 128, 128, 16 * 64, 128, 0], dtype=torch.int32)
    d = rows_of(multiplied(as_bytes(a, 4096), as_bytes(b, 8192), how), 128, 64, torch.float32)
    expected = -(a.float() @ b.float().T) * (1 + 0.25)  # the second time, a quarter of the first sums is kept
    expected[::32] = torch.nan  # nothing has written these lanes
    assert torch.equal(d.nan_to_num(7), expected.nan_to_num(7))


def test_sums_of_64_rows_in_the_upper_lanes_of_each_quarter():
    a, b = small(64, torch.bfloat16), small(16, torch.bfloat16)
    how = [0, instruction(64, 16, torch.bfloat16, torch.float32), 0, 1, 16 * 64, 128, 16 * 16, 128, 16 << 16]
    d = multiplied(as_bytes(a, 4096), as_bytes(b, 8192), torch.tensor(how, dtype=torch.int32))
    rows = d.reshape(4, 32, -1)[:, 16:].reshape(64, -1)[:, :16].view(torch.float32)
    assert torch.equal(rows, a.float() @ b.float().T)


def test_each_shape_of_a_copy():
    x = torch.randint(0, 256, (2, 128, 16), dtype=torch.uint8)  # units of 16 bytes, each with all rows
    words = copied(x.reshape(-1)).reshape(128, 6, 8)
    rows = x.transpose(0, 1).reshape(128, 32).contiguous().view(torch.int32)  # of eight words
    untouched = torch.full((128, 8), -1, dtype=torch.int32)
    expected = [untouched.clone() for _ in range(6)]
    expected[0][:] = rows
    expected[1][::32] = rows[:4]
    expected[2][:, :4] = rows[:, :4]
    expected[3][:, :4] = rows[:64, :4].repeat(2, 1)
    expected[4][:, :4] = rows[:64, :4].reshape(2, 1, 32, 4).expand(2, 2, 32, 4).reshape(128, 4)
    expected[5][:, :4] = rows[:32, :4].repeat(4, 1)
    assert torch.equal(words, torch.stack(expected, 1))


NO_SCALES = torch.zeros(2, 512, dtype=torch.uint8)


@pytest.mark.parametrize(("m", "n"), [(128, 64), (128, 256), (256, 32), (256, 256)])
def test_a_product_of_two_blocks(m, n):
    a, b = small(m, torch.bfloat16), small(n, torch.bfloat16)
    how = [0, instruction(m, n, torch.bfloat16, torch.float32), 16 * (m // 2), 16 * (n // 2)]
    halves = [torch.stack([as_bytes(half, 4096) for half in matrix.chunk(2)]) for matrix in (a, b)]
    d = multiplied_by_pair(*halves, NO_SCALES, NO_SCALES, torch.tensor(how, dtype=torch.int32)).view(torch.float32)
    if m == 256:
        product = d[:, :, :n].reshape(256, n)
    else:  # the lower lanes of a block have the left half of its 64 rows, and the upper lanes the right half
        product = d.reshape(2, 2, 64, 256)[..., : n // 2].permute(0, 2, 1, 3).reshape(128, n)
    assert torch.equal(product, a.float() @ b.float().T)


FOUR_BITS = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


@pytest.mark.parametrize(
    ("kind", "block", "scale_dtype", "scale_id"),
    [
        (1, 32, torch.float8_e8m0fnu, 0),
        (1, 32, torch.float8_e8m0fnu, 3),
        (2, 32, torch.float8_e8m0fnu, 2),
        (3, 16, torch.float8_e4m3fn, 0),
    ],
    ids=["mxf8f6f4", "mxf8f6f4-last", "mxf4", "mxf4nvf4"],
)
def test_a_product_with_scales(kind, block, scale_dtype, scale_id):
    m, n, k = 256, 256, 32 if kind == 1 else 64
    if kind == 1:
        a, b = small(m, torch.float8_e4m3fn), small(n, torch.float8_e4m3fn)
        values, codes = (a.float(), b.float()), (a, b)
    else:
        nibbles = torch.randint(0, 16, (m, k)), torch.randint(0, 16, (n, k))
        values = tuple(FOUR_BITS[each] for each in nibbles)
        codes = tuple((each[:, ::2] | each[:, 1::2] << 4).to(torch.uint8) for each in nibbles)
    is_power = scale_dtype == torch.float8_e8m0fnu
    numbers = [torch.randint(-2, 3, (rows, k // block)).float() for rows in (m, n)]
    scales = [(torch.exp2(each) if is_power else (each + 3) / 4).to(scale_dtype) for each in numbers]
    # 128 rows: each of 32 lanes has four columns, for every 32nd row, with a byte for each block of K
    laid_out = [
        torch.nn.functional.pad(each.view(torch.uint8), (scale_id, 4 - scale_id - k // block))
        .reshape(2, 4, 32, 4)
        .transpose(1, 2)
        .reshape(2, 512)
        for each in scales
    ]
    code = (0 if kind == 1 else 1) * (1 << 7 | 1 << 10) | n >> 3 << 17 | is_power << 23 | m >> 4 << 24
    code = int.from_bytes((code | scale_id << 4 | scale_id << 29).to_bytes(4, "little"), "little", signed=True)
    halves = [torch.stack([as_bytes(half, 4096) for half in matrix.chunk(2)]) for matrix in codes]
    d = multiplied_by_pair(*halves, *laid_out, torch.tensor([kind, code, 16 * 128, 16 * 128], dtype=torch.int32))
    scaled = [value * scale.float().repeat_interleave(block, 1) for value, scale in zip(values, scales, strict=True)]
    assert torch.equal(d.view(torch.float32).reshape(m, n), scaled[0] @ scaled[1].T)


# ---- mistakes


MESSAGES = [
    r"tcgen05\.alloc of 48 columns: the number must be a power of 2 from 32 to 512",
    r"deadlock in block",
    r"the block ends without having freed its tensor memory by tcgen05\.dealloc",
    r"tcgen05\.ld: this warp may access lanes 0 to 31 of tensor memory, but the address begins at lane 96",
    r"tcgen05\.ld: columns 64 to 64 of tensor memory are not all allocated",
    r"tcgen05\.ld: the lanes of the warp execute it with different operands",
    r"tcgen05\.cp: bits 46 to 48 of a matrix descriptor must be 0b001; is it one for wgmma\?",
    r"tcgen05\.mma: M is 256, but must be 64 or 128 for cta_group::1",
    r"tcgen05\.alloc after tcgen05\.relinquish_alloc_permit",
    r"some execute tcgen05\.ld|an access to tensor memory .*waits|deadlock in block",
    r"tcgen05\.dealloc of 32 columns at 0x00000000, which were not allocated together",
]


@pytest.mark.parametrize(("which", "message"), [*enumerate(MESSAGES)])
def test_a_mistake_in_the_use_of_tensor_memory(which, message):
    with pytest.raises(LaunchError, match=message):
        mistaken(torch.tensor([which], dtype=torch.int32))
    assert mistaken(torch.tensor([-1], dtype=torch.int32)).tolist() == [0]  # the next launch works again


def test_a_pair_of_blocks_without_a_cluster():
    alone = define_for_blackwell(SOURCES / "pair.cu", PAIRS_OPERANDS, entry="multiplied", grid=2)
    zeros = torch.zeros(2, 4096, dtype=torch.uint8)
    with pytest.raises(LaunchError, match="cta_group::2 needs clusters of an even number of blocks, not of 1"):
        alone(zeros, zeros, NO_SCALES, NO_SCALES, torch.zeros(4, dtype=torch.int32))


# ---- pairs of floats


def test_arithmetic_on_pairs_of_floats():
    a, b = torch.tensor([1.5, -2.0]), torch.tensor([4.0, 0.25])
    expected = torch.cat([a * b, a + b, a * b + (a + b)])
    assert torch.equal(pairs(torch.cat([a, b]).view(torch.float64)).view(torch.float32), expected)


# ---- clusterlaunchcontrol


@pytest.mark.parametrize("blocks", [1, 2, 500])
def test_a_block_takes_the_work_of_those_that_have_not_begun(blocks):
    assert squares(torch.zeros(blocks)).tolist() == [i * i for i in range(blocks)]
