// The products of tcgen05.mma.
//
// As for wgmma, each product of two elements is exact, and the products are summed from the lowest k up, rounding to float
// after each addition.
#pragma once

#include "../check/race.h"
#include "../detail/block.h"
#include "../detail/block_scaling.h"
#include "../detail/fault.h"
#include "../detail/float16_rounding.h"
#include "../detail/site.h"
#include "../detail/tcgen05.h"
#include "fault.h"
#include "matrix_operands.h"
#include "scheduler.h"
#include "tensor_instruction.h"
#include "tensor_memory.h"
#include "trace.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

namespace tkjit::sim {

// ---- operands

/// Returns the lane of a row of A or D, relative to the address. Of 64 rows, 16 are in each quarter of the lanes, or all in
/// the lower half if the block is one of a pair. Source: PTX ISA, "Data Path Layout Organization".
inline unsigned lane_of_row(unsigned row, unsigned rows, CtaGroup group) {
    return rows == 64 && group == CtaGroup::one ? row / 16 * 32 + row % 16 : row;
}

/// Calls `visit(lane)` for each 16 lanes that have rows of A or D.
template <class Visit>
inline void for_each_part(unsigned first_lane, unsigned rows, CtaGroup group, Visit visit) {
    for (unsigned row = 0; row < rows; row += 16) visit(first_lane + lane_of_row(row, rows, group));
}

/// Fails unless A or D begins at a lane where rows can begin: the first, or the 16th for 64 rows of a block alone.
inline void check_lane(uint32_t address, unsigned rows, CtaGroup group, Site site) {
    const unsigned lane = lane_in(address);
    if (lane == 0 || (lane == 16 && rows == 64 && group == CtaGroup::one)) return;
    fail(site, "tcgen05.mma: %u rows of A or D cannot begin at lane %u of tensor memory", rows, lane);
}

/// A block's A by rows, and B by rows of K.
struct TensorMatrices {
    float a[most_product_m][most_product_k];
    alignas(64) float b[most_product_k][most_product_n];
    char rows[most_product_n][row_bytes];  // before they are converted
};

inline void read_shared_rows(TensorMatrices& to, const SharedMatrix& from, TensorElement element, unsigned count, Site site) {
    const bool are_packed = element == TensorElement::tf32 || (element >= TensorElement::e2m3 && element <= TensorElement::e2m1) ||
                            element == TensorElement::e2m1_packed;
    if (from.by_other() && are_packed) {
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
        for_each_part(lane_in(address), rows, product.group, [&](unsigned lane) {
            race::use_tensor_memory(block, lane, 16, column_in(address), row_bytes / 4, false, issued);
        });
    } else {
        read_shared_rows(to, SharedMatrix(block, product.a, one.a_by_columns, issued, site), one.a, rows, site);
    }
    const ConvertTensorRow convert = tensor_row_converter(one.a);
    for (unsigned row = 0; row < rows; row++) convert(to.a[row], to.rows[row], one.negates_a ? -1.0f : 1.0f);
}

/// Reads the columns of B that a block has, which begin at `first`.
inline void read_b_of_block(TensorMatrices& to, const TensorProduct& product, const TensorInstruction& one, unsigned first,
                            unsigned count, const Block& block, const race::Moment& issued, Site site) {
    read_shared_rows(to, SharedMatrix(block, product.b, one.b_by_rows, issued, site), one.b, count, site);
    const unsigned k = product_k(one.b);
    const ConvertTensorRow convert = tensor_row_converter(one.b);
    for (unsigned column = 0; column < count; column += 8) {
        float numbers[8][most_product_k];
        for (unsigned i = 0; i < 8; i++) convert(numbers[i], to.rows[column + i], one.negates_b ? -1.0f : 1.0f);
        for (unsigned i = 0; i < k; i++) {
            for (unsigned each = 0; each < 8; each++) to.b[i][first + column + each] = numbers[each][i];
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
    race::use_tensor_memory(block, lane_in(product.scales_a), tensor_lanes, column_in(product.scales_a), (rows + 31) / 32, false, issued);
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
    race::use_tensor_memory(block, lane_in(product.scales_b), tensor_lanes, column_in(product.scales_b), (width + 31) / 32, false, issued);
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
    alignas(64) float sums[most_product_n];
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
            if (product.disabled_lanes[4 * number + lane / 32] >> lane % 32 & 1) continue;
            uint32_t* const d = tensor_words(block, first_lane + lane, column, count, "tcgen05.mma", site);
            const auto* const b = reinterpret_cast<const float(*)[most_product_n]>(&matrices.b[0][part * count]);
            add_to_row(d, product, one, count, matrices.a[row], b);
        }
    }
    for_each_part(first_lane, rows * parts, product.group, [&](unsigned lane) {
        race::use_tensor_memory(block, lane, 16, column, count, true, issued, product.accumulates);
    });
}

void multiply_in_tensor_memory(const TensorProduct& product, Site site) {
    const TensorInstruction one = instruction_of(product, site);
    const unsigned blocks = static_cast<unsigned>(product.group), rows = one.m / blocks;
    Block& own = *current_block;
    Block* const pair[] = {blocks == 1 || own.cluster_rank % 2 == 0 ? &own : &peer_of(own, site),
                           blocks == 1 ? nullptr : own.cluster_rank % 2 ? &own : &peer_of(own, site)};
    check_lane(product.d, rows, product.group, site);
    if (product.a_in_tensor_memory) {
        check_lane(static_cast<uint32_t>(product.a), rows, product.group, site);
    } else {
        check_descriptor(product.a, "tcgen05.mma", site);
    }
    check_descriptor(product.b, "tcgen05.mma", site);
    const race::Moment issued = race::begin_tensor_operation(site);
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

}  // namespace tkjit::sim
