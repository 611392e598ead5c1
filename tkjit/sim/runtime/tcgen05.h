// The products of tcgen05.mma, and copies to tensor memory.
//
// As for wgmma, each product of two elements is exact, and the products are summed from the lowest k up, rounding to float
// after each addition.
#pragma once

#include "../check/race.h"
#include "../detail/block.h"
#include "../detail/block_scaling.h"
#include "../detail/cluster.h"
#include "../detail/fault.h"
#include "../detail/float16_rounding.h"
#include "../detail/site.h"
#include "../detail/tcgen05.h"
#include "../detail/wgmma.h"
#include "fault.h"
#include "matrix_operands.h"
#include "mbarrier.h"
#include "scheduler.h"
#include "tensor_memory.h"
#include "trace.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

namespace tkjit::sim {

inline constexpr unsigned most_product_m = 128, most_product_n = 256, most_product_k = 64;

/// The formats of elements. Source: PTX ISA, "Instruction descriptor".
enum class TensorElement : unsigned char { f16, bf16, tf32, e4m3, e5m2, e2m3, e3m2, e2m1, u8, s8, e2m1_packed };

/// The fields of an instruction descriptor that all kinds share, and those of the kinds with scales.
struct TensorInstruction {
    unsigned m, n;
    TensorElement a, b;
    Sums sums;
    bool negates_a, negates_b, a_by_columns, b_by_rows, saturates;
    unsigned scale_id_a, scale_id_b;
    bool scales_are_powers;  // e8m0; else e4m3, without a sign
};

inline bool is_scaled(TensorKind kind) { return kind >= TensorKind::mxf8f6f4; }

inline TensorElement element_of(TensorKind kind, unsigned code, Site site) {
    constexpr TensorElement narrow[] = {TensorElement::e4m3, TensorElement::e5m2, TensorElement::e4m3,
                                        TensorElement::e2m3, TensorElement::e3m2, TensorElement::e2m1};
    switch (kind) {
        case TensorKind::f16:
            if (code < 2) return code ? TensorElement::bf16 : TensorElement::f16;
            break;
        case TensorKind::tf32:
            if (code == 2) return TensorElement::tf32;
            break;
        case TensorKind::i8:
            if (code < 2) return code ? TensorElement::s8 : TensorElement::u8;
            break;
        case TensorKind::f8f6f4:
        case TensorKind::mxf8f6f4:
            if (code < 6 && code != 2) return narrow[code];
            break;
        case TensorKind::mxf4:
        case TensorKind::mxf4nvf4:
            if (code == 1) return TensorElement::e2m1_packed;
            break;
    }
    fail(site, "tcgen05.mma: the instruction descriptor has the element type %u, which this kind of product lacks", code);
}

inline TensorInstruction instruction_of(const TensorProduct& product, Site site) {
    const uint32_t bits = product.instruction;
    const bool scaled = is_scaled(product.kind);
    if (bits & 4) fail(site, "the simulator has no sparse tcgen05.mma");
    TensorInstruction one{};
    one.m = (bits >> 24 & 31) << 4;
    one.n = (bits >> 17 & 63) << 3;
    one.a = element_of(product.kind, bits >> 7 & 7, site);
    one.b = element_of(product.kind, bits >> 10 & (product.kind >= TensorKind::mxf4 ? 3 : 7), site);
    const unsigned sums = bits >> 4 & 3;
    one.sums = scaled || sums == 1 ? Sums::f32 : sums == 2 ? Sums::s32 : Sums::f16;
    if ((product.kind == TensorKind::i8) != (one.sums == Sums::s32)) {
        fail(site, "tcgen05.mma: the instruction descriptor has the type %u of sums, which this kind of product lacks", sums);
    }
    one.saturates = !scaled && bits >> 3 & 1;
    one.negates_a = bits >> 13 & 1;
    one.negates_b = bits >> 14 & 1;
    one.a_by_columns = bits >> 15 & 1;
    one.b_by_rows = bits >> 16 & 1;
    if (scaled) {
        one.scale_id_b = bits >> 4 & 3;
        one.scale_id_a = bits >> 29 & 3;
        one.scales_are_powers = bits >> 23 & 1;
        if (bits >> 31) fail(site, "the simulator has no tcgen05.mma with K = 96");
    }
    const unsigned blocks = static_cast<unsigned>(product.group);
    const unsigned least_m = scaled ? 128 : 64 * blocks;
    if (one.m < least_m || one.m > 128 * blocks || one.m % 64 || (one.m == 192)) {
        fail(site, "tcgen05.mma: M is %u, but must be %s for cta_group::%u", one.m,
             blocks == 2 ? "128 or 256" : scaled ? "128" : "64 or 128", blocks);
    }
    if (one.n == 0 || one.n > most_product_n || one.n % (8 * blocks)) {
        fail(site, "tcgen05.mma: N is %u, but must be a multiple of %u up to 256 for cta_group::%u", one.n, 8 * blocks, blocks);
    }
    return one;
}

// ---- elements

/// Returns a number of few bits: a sign, `exponent_bits`, and `mantissa_bits`. It has no infinity and no NaN.
template <unsigned exponent_bits, unsigned mantissa_bits>
inline float small_float(unsigned bits) {
    constexpr int bias = (1 << (exponent_bits - 1)) - 1;
    const int mantissa = static_cast<int>(bits & ((1u << mantissa_bits) - 1));
    const int exponent = static_cast<int>(bits >> mantissa_bits & ((1u << exponent_bits) - 1));
    const int whole = exponent ? mantissa + (1 << mantissa_bits) : mantissa;
    const float magnitude = ldexpf(static_cast<float>(whole), (exponent ? exponent : 1) - bias - static_cast<int>(mantissa_bits));
    return bits >> (exponent_bits + mantissa_bits) & 1 ? -magnitude : magnitude;
}

inline unsigned product_k(TensorElement element) {
    switch (element) {
        case TensorElement::f16:
        case TensorElement::bf16: return 16;
        case TensorElement::tf32: return 8;
        case TensorElement::e2m1_packed: return 64;
        default: return 32;
    }
}

/// Returns element `i` of a row of 32 bytes. Sixteen elements of 6 or 4 bits, unless they are packed, take up 16 bytes,
/// with padding at the end. Source: PTX ISA, "Packing formats of elements in Tensor and Shared memory".
inline float element_at(const char* row, TensorElement element, unsigned i) {
    const auto byte_at = [=](unsigned at) { return static_cast<unsigned char>(row[at]); };
    const auto bits_at = [=](unsigned bits) {
        const unsigned first = i / 16 * 16 + i % 16 * bits / 8, shift = i % 16 * bits % 8;
        return (byte_at(first) | (shift + bits > 8 ? byte_at(first + 1) << 8 : 0)) >> shift & ((1u << bits) - 1);
    };
    switch (element) {
        case TensorElement::f16: return element_value<Element::f16>(row + 2 * i);
        case TensorElement::bf16: return element_value<Element::bf16>(row + 2 * i);
        case TensorElement::tf32: return element_value<Element::tf32>(row + 4 * i);
        case TensorElement::e4m3: return e4m3_value(byte_at(i));
        case TensorElement::e5m2: return e5m2_value(byte_at(i));
        case TensorElement::u8: return byte_at(i);
        case TensorElement::s8: return static_cast<signed char>(row[i]);
        case TensorElement::e2m3: return small_float<2, 3>(bits_at(6));
        case TensorElement::e3m2: return small_float<3, 2>(bits_at(6));
        case TensorElement::e2m1: return e2m1_value(static_cast<unsigned char>(bits_at(4)));
        case TensorElement::e2m1_packed: return e2m1_value(static_cast<unsigned char>(byte_at(i / 2) >> i % 2 * 4 & 15));
    }
    __builtin_unreachable();
}

// ---- operands

/// Returns the lane of a row of A or D, relative to the address. Of 64 rows, 16 are in each quarter of the lanes, or all in
/// the lower half if the block is one of a pair. Source: PTX ISA, "Data Path Layout Organization".
inline unsigned lane_of_row(unsigned row, unsigned rows, CtaGroup group) {
    return rows == 64 && group == CtaGroup::one ? row / 16 * 32 + row % 16 : row;
}

/// A block's A by rows, and B by rows of K.
struct TensorMatrices {
    float a[most_product_m][most_product_k];
    alignas(64) float b[most_product_k][most_product_n];
    char rows[most_product_n][row_bytes];  // before they are converted
};

/// Checks the parts of a descriptor that wgmma does not have.
inline void check_descriptor(uint64_t bits, const char* what, Site site) {
    if ((bits >> 46 & 7) != 1) fail(site, "%s: bits 46 to 48 of a matrix descriptor must be 0b001; is it one for wgmma?", what);
    if (bits >> 52 & 1 || (bits >> 61 & 1)) fail(site, "%s: the simulator lacks this mode of a matrix descriptor", what);
}

inline void read_shared_rows(TensorMatrices& to, const SharedMatrix& from, TensorElement element, unsigned count, Site site) {
    if (from.by_other() && product_k(element) != 16 && product_k(element) != 32) {
        fail(site, "tcgen05.mma: the simulator has no matrices of this type that are contiguous along M or N");
    }
    product_k(element) == 32 ? read_rows<1>(to.rows, from, count) : read_rows<2>(to.rows, from, count);
}

inline void read_a_of_block(TensorMatrices& to, const TensorProduct& product, const TensorInstruction& one, unsigned rows,
                            const Block& block, const race::Moment& issued, Site site) {
    if (product.a_in_tensor_memory) {
        const bool is_narrow = one.a >= TensorElement::e2m3 && one.a <= TensorElement::e2m1;
        if (is_narrow) fail(site, "tcgen05.mma: the simulator has no elements of 6 or 4 bits in tensor memory");
        const auto address = static_cast<uint32_t>(product.a);
        for (unsigned row = 0; row < rows; row++) {
            const unsigned lane = lane_in(address) + lane_of_row(row, rows, product.group);
            memcpy(to.rows[row], tensor_words(block, lane, column_in(address), row_bytes / 4, "tcgen05.mma", site), row_bytes);
        }
        race::use_tensor_memory(block, lane_in(address), tensor_lanes, column_in(address), row_bytes / 4, false, issued);
    } else {
        read_shared_rows(to, SharedMatrix(block, product.a, one.a_by_columns, issued, site), one.a, rows, site);
    }
    const unsigned k = product_k(one.a);
    for (unsigned row = 0; row < rows; row++) {
        for (unsigned i = 0; i < k; i++) {
            const float value = element_at(to.rows[row], one.a, i);
            to.a[row][i] = one.negates_a ? -value : value;
        }
    }
}

/// Reads the columns of B that a block has, which begin at `first`.
inline void read_b_of_block(TensorMatrices& to, const TensorProduct& product, const TensorInstruction& one, unsigned first,
                            unsigned count, const Block& block, const race::Moment& issued, Site site) {
    read_shared_rows(to, SharedMatrix(block, product.b, one.b_by_rows, issued, site), one.b, count, site);
    const unsigned k = product_k(one.b);
    for (unsigned column = 0; column < count; column++) {
        for (unsigned i = 0; i < k; i++) {
            const float value = element_at(to.rows[column], one.b, i);
            to.b[i][first + column] = one.negates_b ? -value : value;
        }
    }
}

// ---- scales

/// Returns a scale: a power of two, or an e4m3 without its sign.
inline float scale_value(unsigned char bits, bool is_power) { return is_power ? e8m0_value(bits) : e4m3_value(bits & 0x7f); }

/// Returns the byte `index` of a row's scales. Each lane of 32 has those of every 32nd row, one row in each column.
inline float scale_at(const Block& block, uint32_t address, unsigned row, unsigned first_lane, unsigned index, bool is_power, Site site) {
    const unsigned lane = lane_in(address) + first_lane + row % 32, column = column_in(address) + row / 32;
    const uint32_t word = *tensor_words(block, lane, column, 1, "tcgen05.mma", site);
    return scale_value(static_cast<unsigned char>(word >> 8 * index), is_power);
}

inline void check_scale_id(unsigned id, unsigned scales, Site site) {
    if (id % scales || id + scales > 4) fail(site, "tcgen05.mma: the instruction descriptor has the scale factor ID %u for %u scales", id, scales);
}

inline void scale_a(TensorMatrices& to, const TensorProduct& product, const TensorInstruction& one, unsigned rows,
                    const Block& block, const race::Moment& issued, Site site) {
    const unsigned k = product_k(one.a);
    check_scale_id(one.scale_id_a, k / product.scale_block, site);
    for (unsigned row = 0; row < rows; row++) {
        for (unsigned i = 0; i < k; i++) {
            to.a[row][i] *= scale_at(block, product.scales_a, row, 0, one.scale_id_a + i / product.scale_block, one.scales_are_powers, site);
        }
    }
    race::use_tensor_memory(block, lane_in(product.scales_a), 32, column_in(product.scales_a), (rows + 31) / 32, false, issued);
}

/// Scales all columns of B. If the block has only 64 rows of D, the scales of the right half are in other lanes.
inline void scale_b(TensorMatrices& to, const TensorProduct& product, const TensorInstruction& one, unsigned rows,
                    const Block& block, const race::Moment& issued, Site site) {
    const unsigned k = product_k(one.b), width = rows == 64 ? one.n / 2 : one.n;
    check_scale_id(one.scale_id_b, k / product.scale_block, site);
    for (unsigned i = 0; i < k; i++) {
        const unsigned index = one.scale_id_b + i / product.scale_block;
        for (unsigned column = 0; column < one.n; column++) {
            to.b[i][column] *= scale_at(block, product.scales_b, column % width, column / width * 64, index, one.scales_are_powers, site);
        }
    }
    race::use_tensor_memory(block, lane_in(product.scales_b), 32, column_in(product.scales_b), (width + 31) / 32, false, issued);
}

// ---- sums

/// Adds a row of A times `columns` of B to a row of D.
template <unsigned blocks, unsigned lanes>
__attribute__((always_inline)) inline void multiply_columns(float* d, const float* a, const float (*b)[most_product_n], unsigned k) {
    using Vector = typename Several<float, lanes>::type;
    Vector sums[blocks];
    memcpy(sums, d, sizeof(sums));
    for (unsigned i = 0; i < k; i++) {
        for (unsigned block = 0; block < blocks; block++) {
            Vector columns;
            memcpy(&columns, b[i] + lanes * block, sizeof(columns));
            sums[block] += a[i] * columns;
        }
    }
    memcpy(d, sums, sizeof(sums));
}

inline void multiply_row(float* d, unsigned count, const float* a, const float (*b)[most_product_n], unsigned k) {
    const auto from = [&](unsigned i) { return reinterpret_cast<const float(*)[most_product_n]>(&b[0][i]); };
    unsigned i = 0;
    for (; i + 64 <= count; i += 64) multiply_columns<8, 8>(d + i, a, from(i), k);
    for (; i + 8 <= count; i += 8) multiply_columns<1, 8>(d + i, a, from(i), k);
}

inline int32_t sum_of_integers(int32_t a, int32_t b, bool saturates) {
    const int64_t sum = int64_t{a} + b;
    if (!saturates) return static_cast<int32_t>(static_cast<uint32_t>(sum));
    return sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : static_cast<int32_t>(sum);
}

/// Adds to a row of D, which is in 32-bit columns, whatever the type of its sums.
inline void add_to_row(uint32_t* d, const TensorProduct& product, const TensorInstruction& one, unsigned count, const float* a,
                       const float (*b)[most_product_n]) {
    float sums[most_product_n];
    const bool is_integer = one.sums == Sums::s32;
    if (!product.accumulates || is_integer) {
        memset(sums, 0, count * sizeof(float));
    } else if (one.sums == Sums::f32) {
        memcpy(sums, d, count * sizeof(float));
    } else {
        for (unsigned i = 0; i < count; i++) sums[i] = half_value(static_cast<unsigned short>(d[i]));
    }
    if (product.shift_of_d) {
        for (unsigned i = 0; i < count; i++) sums[i] = ldexpf(sums[i], -static_cast<int>(product.shift_of_d));
    }
    multiply_row(sums, count, a, b, product_k(one.a));
    if (one.sums == Sums::f32) {
        memcpy(d, sums, count * sizeof(float));
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        if (!is_integer) {
            d[i] = half_bits(sums[i]);
            continue;
        }
        const int32_t before = product.accumulates ? static_cast<int32_t>(d[i]) : 0;
        d[i] = static_cast<uint32_t>(sum_of_integers(before, static_cast<int32_t>(sums[i]), one.saturates));
    }
}

/// Adds to a block's rows of D. A block of a pair that has 64 rows has the left half of them in its lower lanes, and the
/// right half in its upper lanes.
inline void add_to_block(const TensorMatrices& matrices, const TensorProduct& product, const TensorInstruction& one, unsigned rows,
                         unsigned number, const Block& block, const race::Moment& issued, Site site) {
    const bool is_halved = rows == 64 && product.group == CtaGroup::pair;
    const unsigned parts = is_halved ? 2 : 1, count = one.n / parts;
    const unsigned first_lane = lane_in(product.d), column = column_in(product.d);
    for (unsigned row = 0; row < rows; row++) {
        for (unsigned part = 0; part < parts; part++) {
            const unsigned lane = lane_of_row(row, rows, product.group) + 64 * part;
            if (product.lanes_kept[4 * number + lane / 32] >> lane % 32 & 1) continue;
            uint32_t* const d = tensor_words(block, first_lane + lane, column, count, "tcgen05.mma", site);
            const auto* const b = reinterpret_cast<const float(*)[most_product_n]>(&matrices.b[0][part * count]);
            add_to_row(d, product, one, count, matrices.a[row], b);
        }
    }
    const unsigned step = rows == 64 && !is_halved ? 32 : 16;
    for (unsigned lane = first_lane; lane < tensor_lanes; lane += step) {
        race::use_tensor_memory(block, lane, 16, column, count, true, issued, product.accumulates);
    }
}

void multiply_in_tensor_memory(const TensorProduct& product, Site site) {
    const TensorInstruction one = instruction_of(product, site);
    const unsigned blocks = static_cast<unsigned>(product.group), rows = one.m / blocks;
    Block& own = *current_block;
    Block* const pair[] = {blocks == 1 || own.cluster_rank % 2 == 0 ? &own : &peer_of(own, site),
                           blocks == 1 ? nullptr : own.cluster_rank % 2 ? &own : &peer_of(own, site)};
    if (!product.a_in_tensor_memory) check_descriptor(product.a, "tcgen05.mma", site);
    check_descriptor(product.b, "tcgen05.mma", site);
    const race::Moment issued = race::begin_copy(race::Copier::tensor_products, site);
    auto& matrices = room_for_matrices<TensorMatrices>(own, site);
    const unsigned width = one.n / blocks;
    for (unsigned i = 0; i < blocks; i++) read_b_of_block(matrices, product, one, i * width, width, *pair[i], issued, site);
    for (unsigned i = 0; i < blocks; i++) {
        read_a_of_block(matrices, product, one, rows, *pair[i], issued, site);
        if (is_scaled(product.kind)) {
            scale_a(matrices, product, one, rows, *pair[i], issued, site);
            if (i == 0) scale_b(matrices, product, one, rows, *pair[i], issued, site);
        }
        add_to_block(matrices, product, one, rows, i, *pair[i], issued, site);
    }
    if (traced()) trace(site, "tcgen05.mma of %u x %u x %u", one.m, one.n, product_k(one.a));
    count_event(own);
    give_way();
}

// ---- copies

/// Source: PTX ISA, "tcgen05.cp". A row of the matrix goes to each of the lanes that the shape names.
void copy_to_tensor_memory(CtaGroup group, TensorCopyShape shape, uint32_t address, uint64_t descriptor, Site site) {
    constexpr unsigned rows_by_shape[] = {128, 4, 128, 64, 64, 32};
    const unsigned rows = rows_by_shape[static_cast<unsigned>(shape)];
    const unsigned units = shape == TensorCopyShape::c128x256b || shape == TensorCopyShape::c4x256b ? 2 : 1;
    const auto lane_of = [&](unsigned row, unsigned copy) {
        switch (shape) {
            case TensorCopyShape::c4x256b: return 32 * row;  // the figure's rows are the first lanes of the quarters
            case TensorCopyShape::c64x128b_02_13: return row + 64 * copy;
            case TensorCopyShape::c64x128b_01_23: return row / 32 * 64 + row % 32 + 32 * copy;
            case TensorCopyShape::c32x128b_x4: return row + 32 * copy;
            default: return row;
        }
    };
    const unsigned copies = shape == TensorCopyShape::c32x128b_x4 ? 4 : rows == 64 ? 2 : 1;
    check_descriptor(descriptor, "tcgen05.cp", site);
    const race::Moment issued = race::begin_copy(race::Copier::tensor_products, site);
    Block& own = *current_block;
    const unsigned blocks = static_cast<unsigned>(group);
    for (unsigned i = 0; i < blocks; i++) {
        Block& block = i == 0 ? own : peer_of(own, site);
        const SharedMatrix from(block, descriptor, false, issued, site);
        for (unsigned row = 0; row < rows; row++) {
            char bytes[32];
            for (unsigned unit = 0; unit < units; unit++) memcpy(bytes + 16 * unit, from.along_k(row, unit), 16);
            for (unsigned copy = 0; copy < copies; copy++) {
                const unsigned lane = lane_in(address) + lane_of(row, copy);
                memcpy(tensor_words(block, lane, column_in(address), 4 * units, "tcgen05.cp", site), bytes, 16 * units);
            }
        }
        race::use_tensor_memory(block, lane_in(address), tensor_lanes, column_in(address), 4 * units, true, issued, false);
    }
    count_event(own);
    give_way();
}

// ---- completion

inline void arrive_when_done(uint64_t* barrier, const race::Moment& last, Site site) {
    MbarrierBits bits = checked_bits(barrier, "tcgen05.commit", site);
    if (bits.pending == 0) fail(site, "tcgen05.commit: the mbarrier expects no arrival in this phase");
    race::release_tensor_operations(barrier);
    race::arrive(barrier);  // what happened before the operations were issued is over once they are
    race::arrive_for(barrier, last);
    bits.pending--;
    race::note_mbarrier_arrival(barrier, bits.pending, bits.count, site);
    end_phase_if_complete(barrier, bits, site);
}

void commit_tensor_operations(uint64_t* barrier, unsigned ranks, Site site) {
    const race::Moment last = race::last_tensor_operation(site);
    if (ranks == 0) arrive_when_done(barrier, last, site);
    for (unsigned rest = ranks; rest; rest &= rest - 1) {
        const auto rank = static_cast<unsigned>(__builtin_ctz(rest));
        arrive_when_done(reinterpret_cast<uint64_t*>(in_other_block(barrier, rank, site)), last, site);
    }
    give_way();
}

}  // namespace tkjit::sim
