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

#include <utility>

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
using RowsOfB = const float (*)[most_product_n];

/// Returns a scale: a power of two, or an e4m3 without its sign.
inline float scale_value(unsigned char bits, bool is_power) { return is_power ? e8m0_value(bits) : e4m3_value(bits & 0x7f); }

// ---- sums

/// Adds a row of A times some columns of B to a row of D.
template <unsigned blocks, unsigned lanes>
__attribute__((always_inline)) inline void multiply_columns(float* d, const float* a, RowsOfB b, unsigned k) {
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

inline RowsOfB from_column(RowsOfB b, unsigned column) { return reinterpret_cast<RowsOfB>(&b[0][column]); }

inline void multiply_row(float* d, unsigned count, const float* a, RowsOfB b, unsigned k) {
    unsigned i = 0;
    for (; i + 64 <= count; i += 64) multiply_columns<8, 8>(d + i, a, from_column(b, i), k);
    for (; i + 8 <= count; i += 8) multiply_columns<1, 8>(d + i, a, from_column(b, i), k);
}

inline uint32_t sum_of_integers(uint32_t a, float b, bool saturates) {
    const int64_t sum = int64_t{static_cast<int32_t>(a)} + static_cast<int64_t>(b);
    if (!saturates) return static_cast<uint32_t>(sum);
    return static_cast<uint32_t>(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : static_cast<int32_t>(sum));
}

/// Multiplies for one instruction, in its block or in both blocks of a pair.
class TensorMultiplication {
  public:
    TensorMultiplication(const TensorProduct& product, Site site)
        : product_(product), site_(site), one_(instruction_of(product, site)),
          blocks_(static_cast<unsigned>(product.group)), rows_(one_.m / blocks_), k_(product_k(one_.a)) {
        check_lane(product.d, rows_, product.group, site);
        if (product.a_in_tensor_memory) {
            check_lane(static_cast<uint32_t>(product.a), rows_, product.group, site);
        } else {
            check_descriptor(product.a, "tcgen05.mma", site);
        }
        check_descriptor(product.b, "tcgen05.mma", site);
        if (product.scale_block) {
            check_scale_id(one_.scale_id_a);
            check_scale_id(one_.scale_id_b);
        }
    }

    void run() {
        Block& own = *current_block;
        const Block* pair[] = {&own, blocks_ == 2 ? &peer_of(own, site_) : nullptr};
        if (blocks_ == 2 && own.cluster_rank % 2) std::swap(pair[0], pair[1]);
        issued_ = race::begin_tensor_operation(site_);
        matrices_ = &room_for_matrices<TensorMatrices>(own, site_);
        for (unsigned i = 0; i < blocks_; i++) read_b(*pair[i], i * one_.n / blocks_);
        if (product_.scale_block) scale_b(*pair[0]);
        for (unsigned i = 0; i < blocks_; i++) {
            read_a(*pair[i]);
            if (product_.scale_block) scale_a(*pair[i]);
            add_to(*pair[i], product_.disabled_lanes + 4 * i);
        }
        if (traced()) trace(site_, "tcgen05.mma of %u x %u x %u", one_.m, one_.n, k_);
    }

  private:
    void check_scale_id(unsigned id) const {
        const unsigned scales = k_ / product_.scale_block;
        if (id % scales == 0 && id + scales <= 4) return;
        fail(site_, "tcgen05.mma: the instruction descriptor has the scale factor ID %u for %u scales", id, scales);
    }

    uint32_t* words(const Block& block, unsigned lane, unsigned column, unsigned columns) const {
        return tensor_words(block, lane, column, columns, "tcgen05.mma", site_);
    }

    void read_rows_from(const SharedMatrix& from, TensorElement element, unsigned count) {
        if (from.by_other() && (has_few_bits(element) || element == TensorElement::tf32)) {
            fail(site_, "tcgen05.mma: the simulator has no matrices of this type that are contiguous along M or N");
        }
        product_k(element) == 32 ? read_rows<1>(matrices_->rows, from, count) : read_rows<2>(matrices_->rows, from, count);
    }

    void read_a(const Block& block) {
        if (product_.a_in_tensor_memory) {
            read_a_from_tensor_memory(block, static_cast<uint32_t>(product_.a));
        } else {
            read_rows_from(SharedMatrix(block, product_.a, one_.a_by_columns, issued_, site_), one_.a, rows_);
        }
        const ConvertTensorRow convert = tensor_row_converter(one_.a);
        const float sign = one_.negates_a ? -1.0f : 1.0f;
        for (unsigned row = 0; row < rows_; row++) convert(matrices_->a[row], matrices_->rows[row], sign);
    }

    void read_a_from_tensor_memory(const Block& block, uint32_t address) {
        if (has_few_bits(one_.a)) fail(site_, "tcgen05.mma: the simulator has no elements of 6 or 4 bits in tensor memory");
        const unsigned first = lane_in(address), column = column_in(address), columns = row_bytes / 4;
        for (unsigned row = 0; row < rows_; row++) {
            const unsigned lane = first + lane_of_row(row, rows_, product_.group);
            memcpy(matrices_->rows[row], words(block, lane, column, columns), row_bytes);
        }
        for_each_part(first, rows_, product_.group, [&](unsigned lane) {
            race::use_tensor_memory(block, lane, 16, column, columns, false, issued_);
        });
    }

    /// Reads the columns of B that a block has, which begin at `first`.
    void read_b(const Block& block, unsigned first) {
        const unsigned count = one_.n / blocks_;
        read_rows_from(SharedMatrix(block, product_.b, one_.b_by_rows, issued_, site_), one_.b, count);
        const ConvertTensorRow convert = tensor_row_converter(one_.b);
        for (unsigned column = 0; column < count; column += 8) {
            float numbers[8][most_product_k];
            for (unsigned i = 0; i < 8; i++) convert(numbers[i], matrices_->rows[column + i], one_.negates_b ? -1.0f : 1.0f);
            for (unsigned i = 0; i < k_; i++) {
                for (unsigned each = 0; each < 8; each++) matrices_->b[i][first + column + each] = numbers[each][i];
            }
        }
    }

    /// Returns the word with a row's scales. Each lane of 32 has those of every 32nd row, one row in each column.
    uint32_t scales_of(const Block& block, uint32_t address, unsigned row, unsigned first_lane = 0) const {
        return *words(block, lane_in(address) + first_lane + row % 32, column_in(address) + row / 32, 1);
    }

    float scale_in(uint32_t scales, unsigned id, unsigned k) const {
        return scale_value(static_cast<unsigned char>(scales >> 8 * (id + k / product_.scale_block)), one_.scales_are_powers);
    }

    void note_scales(const Block& block, uint32_t address, unsigned rows) const {
        race::use_tensor_memory(block, lane_in(address), tensor_lanes, column_in(address), (rows + 31) / 32, false, issued_);
    }

    void scale_a(const Block& block) {
        for (unsigned row = 0; row < rows_; row++) {
            const uint32_t scales = scales_of(block, product_.scales_a, row);
            for (unsigned i = 0; i < k_; i++) matrices_->a[row][i] *= scale_in(scales, one_.scale_id_a, i);
        }
        note_scales(block, product_.scales_a, rows_);
    }

    /// Scales all columns of B. If a block has only 64 rows of D, the scales of the right half are in other lanes.
    void scale_b(const Block& block) {
        const unsigned width = rows_ == 64 ? one_.n / 2 : one_.n;
        for (unsigned column = 0; column < one_.n; column++) {
            const uint32_t scales = scales_of(block, product_.scales_b, column % width, column / width * 64);
            for (unsigned i = 0; i < k_; i++) matrices_->b[i][column] *= scale_in(scales, one_.scale_id_b, i);
        }
        note_scales(block, product_.scales_b, width);
    }

    /// Adds to a block's rows of D. A block of a pair that has 64 rows has the left half of them in its lower lanes, and
    /// the right half in its upper lanes.
    void add_to(const Block& block, const uint32_t* disabled_lanes) {
        const unsigned parts = rows_ == 64 && blocks_ == 2 ? 2 : 1, count = one_.n / parts;
        const unsigned first = lane_in(product_.d), column = column_in(product_.d);
        for (unsigned row = 0; row < rows_; row++) {
            for (unsigned part = 0; part < parts; part++) {
                const unsigned lane = lane_of_row(row, rows_, product_.group) + 64 * part;
                if (disabled_lanes[lane / 32] >> lane % 32 & 1) continue;
                uint32_t* d = words(block, first + lane, column, count);
                add_to_row(d, count, matrices_->a[row], from_column(matrices_->b, part * count));
            }
        }
        for_each_part(first, rows_ * parts, product_.group, [&](unsigned lane) {
            race::use_tensor_memory(block, lane, 16, column, count, true, issued_, product_.accumulates);
        });
    }

    /// Adds to a row of D, which is in 32-bit columns, whatever the type of its sums.
    void add_to_row(uint32_t* d, unsigned count, const float* a, RowsOfB b) const {
        alignas(64) float sums[most_product_n] = {};
        const bool is_integer = one_.sums == Sums::s32, is_half = one_.sums == Sums::f16;
        if (product_.accumulates && !is_integer) {
            for (unsigned i = 0; i < count; i++) {
                sums[i] = is_half ? half_value(static_cast<unsigned short>(d[i])) : __builtin_bit_cast(float, d[i]);
            }
        }
        if (product_.shift_of_d) {
            for (unsigned i = 0; i < count; i++) sums[i] = ldexpf(sums[i], -static_cast<int>(product_.shift_of_d));
        }
        multiply_row(sums, count, a, b, k_);
        for (unsigned i = 0; i < count; i++) {
            d[i] = is_integer ? sum_of_integers(product_.accumulates ? d[i] : 0, sums[i], one_.saturates)
                   : is_half  ? half_bits(sums[i])
                              : __builtin_bit_cast(uint32_t, sums[i]);
        }
    }

    const TensorProduct& product_;
    const Site site_;
    const TensorInstruction one_;
    const unsigned blocks_, rows_, k_;  // rows of A that a block has, and the extent of K
    race::Moment issued_{};
    TensorMatrices* matrices_ = nullptr;
};

void multiply_in_tensor_memory(const TensorProduct& product, Site site) {
    TensorMultiplication(product, site).run();
    count_event(*current_block);
    give_way();
}

}  // namespace tkjit::sim
