// A warpgroup's product.
//
// Each product of two elements is exact. The products are summed from the lowest k up, rounding to float after each
// addition. A device keeps more bits in some sums and fewer in others.
#pragma once

#include "../check/race.h"
#include "../detail/block.h"
#include "../detail/fault.h"
#include "../detail/float16_rounding.h"
#include "../detail/numerics.h"
#include "../detail/site.h"
#include "../detail/wgmma.h"
#include "fault.h"
#include "matrix_operands.h"
#include "scheduler.h"

#include <stdint.h>
#include <string.h>

namespace tkjit::sim {

inline constexpr unsigned wgmma_m = 64;
inline constexpr unsigned most_wgmma_n = 256;
inline constexpr unsigned most_wgmma_k = 64;  // of 8-bit elements in a sparse product

/// The operands as numbers: A by rows, and a copy of B for each of the four threads that share a row of D, in the order
/// of the threads' registers, so that sums are computed in place.
template <class Number>
struct Matrices {
    Number a[wgmma_m][most_wgmma_k];
    alignas(64) Number b[4][most_wgmma_k][most_wgmma_n / 2];
    char rows[most_wgmma_n][row_bytes];  // first of A and then of B, before they are converted
};

/// Returns the number of elements of K that an instruction multiplies.
inline unsigned depth_of(const WgmmaShape& shape) { return wgmma_k(shape.a) << shape.is_sparse; }

/// Reads rows of A from registers. A lane's a[i] holds four bytes of row lane / 4 + 8 (i % 2), starting at byte 4 (lane
/// % 4) + 16 (i / 2).
inline void read_registers(char (*rows)[row_bytes], const Thread* threads) {
    for (unsigned t = 0; t < warpgroup_threads; t++) {
        const uint32_t* const registers = static_cast<const WgmmaOperands*>(threads[t].operands)->a_registers;
        const unsigned lane = t % 32, row = t / 32 * 16 + lane / 4;
        for (unsigned i = 0; i < 4; i++) memcpy(rows[row + 8 * (i % 2)] + 4 * (lane % 4) + 16 * (i / 2), &registers[i], 4);
    }
}

/// Converts `bytes` bytes of elements to numbers.
template <unsigned bytes, Element element, class Number>
inline void convert_elements(Number* to, const char* from, int sign) {
    constexpr unsigned size = row_bytes / wgmma_k(element);
    for (unsigned i = 0; i < bytes / size; i++) to[i] = static_cast<Number>(element_value<element>(from + size * i) * sign);
}

template <class Number>
using Convert = void (*)(Number* to, const char* from, int sign);

template <unsigned bytes, class Number>
inline Convert<Number> converter(Element element) {
    if constexpr (static_cast<Number>(0.5) == 0) {
        return element == Element::s8 ? convert_elements<bytes, Element::s8, Number> : convert_elements<bytes, Element::u8, Number>;
    } else {
        switch (element) {
            case Element::f16: return convert_elements<bytes, Element::f16, Number>;
            case Element::bf16: return convert_elements<bytes, Element::bf16, Number>;
            case Element::tf32: return convert_elements<bytes, Element::tf32, Number>;
            case Element::e4m3: return convert_elements<bytes, Element::e4m3, Number>;
            default: return convert_elements<bytes, Element::e5m2, Number>;
        }
    }
}

/// Computes `blocks * lanes` of a thread's sums. D's elements come in groups of four, from two rows.
template <unsigned blocks, unsigned lanes, class Number>
__attribute__((always_inline)) inline void multiply_block(Number* d, const Number* low, const Number* high,
                                                          const Number (*b)[most_wgmma_n / 2], unsigned k,
                                                          bool accumulates) {
    using Vector = typename Several<Number, lanes>::type;
    Vector sums[blocks];
    if (accumulates) {
        memcpy(sums, d, sizeof(sums));
    } else {
        memset(sums, 0, sizeof(sums));
    }
    for (unsigned i = 0; i < k; i++) {
        const Number x = low[i], y = high[i];
        Vector a;
        for (unsigned lane = 0; lane < lanes; lane++) a[lane] = lane / 2 % 2 ? y : x;
        for (unsigned block = 0; block < blocks; block++) {
            Vector columns;
            memcpy(&columns, b[i] + lanes * block, sizeof(columns));
            sums[block] += a * columns;
        }
    }
    memcpy(d, sums, sizeof(sums));
}

/// Computes one thread's sums. It computes as many at a time as the CPU's vectors have lanes.
template <unsigned lanes, class Number>
__attribute__((always_inline)) inline void multiply_thread_by(Number* d, unsigned count, unsigned t,
                                                              const Matrices<Number>& matrices, unsigned k,
                                                              bool accumulates) {
    const unsigned lane = t % 32, row = t / 32 * 16 + lane / 4;
    const Number* const low = matrices.a[row];
    const Number* const high = matrices.a[row + 8];
    const auto* b = matrices.b[lane % 4];
    const auto from = [&](unsigned i) { return reinterpret_cast<const Number(*)[most_wgmma_n / 2]>(&b[0][i]); };
    unsigned i = 0;
    for (; i + 8 * lanes <= count; i += 8 * lanes) multiply_block<8, lanes>(d + i, low, high, from(i), k, accumulates);
    for (; i + 32 <= count; i += 32) multiply_block<32 / lanes, lanes>(d + i, low, high, from(i), k, accumulates);
    for (; i + 8 <= count; i += 8) multiply_block<1, 8>(d + i, low, high, from(i), k, accumulates);
    if (i < count) {  // four are left
        Number rest[8] = {};
        memcpy(rest, d + i, 4 * sizeof(Number));
        multiply_block<1, 8>(rest, low, high, from(i), k, accumulates);
        memcpy(d + i, rest, 4 * sizeof(Number));
    }
}

// The object is compiled for x86-64-v3, but uses v4's vectors if the CPU has them.
#if defined(__x86_64__) && defined(__AVX2__) && !defined(__clang__)
#define TKJIT_SIM_WIDE_VECTORS 1
template <class Number>
__attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,prefer-vector-width=512"))) void multiply_thread_wide(
    Number* d, unsigned count, unsigned t, const Matrices<Number>& matrices, unsigned k, bool accumulates) {
    multiply_thread_by<16>(d, count, t, matrices, k, accumulates);
}

inline const bool has_wide_vectors = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                                     __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
#endif

template <class Number>
inline void multiply_thread(Number* d, unsigned count, unsigned t, const Matrices<Number>& matrices, unsigned k,
                            bool accumulates) {
#ifdef TKJIT_SIM_WIDE_VECTORS
    if (has_wide_vectors) return multiply_thread_wide(d, count, t, matrices, k, accumulates);
#endif
    multiply_thread_by<8>(d, count, t, matrices, k, accumulates);
}

/// Computes sums that are halves, in pairs. They are rounded after all additions.
inline void multiply_halves(uint32_t* d, unsigned count, unsigned t, const Matrices<float>& matrices, unsigned k,
                            bool accumulates) {
    float sums[most_wgmma_n / 2];
    for (unsigned i = 0; i < count; i++) sums[i] = half_value(static_cast<unsigned short>(d[i / 2] >> i % 2 * 16));
    multiply_thread(sums, count, t, matrices, k, accumulates);
    for (unsigned i = 0; i < count; i += 2) {
        d[i / 2] = static_cast<uint32_t>(half_bits(sums[i + 1])) << 16 | half_bits(sums[i]);
    }
}

/// Returns the exponent of the smallest normal number.
constexpr int least_exponent(Element element) {
    return element == Element::e4m3                              ? -6
           : element == Element::f16 || element == Element::e5m2 ? least_of_half
                                                                 : least_of_float;
}

/// Computes all sums as a device's tensor cores do. These keep 13 bits of the fraction for 8-bit floats, else 25.
inline void multiply_as_hardware(Thread* threads, const WgmmaShape& shape, const Matrices<float>& matrices) {
    const bool is_narrow = shape.a == Element::e4m3 || shape.a == Element::e5m2, is_half = shape.sums == Sums::f16;
    const int least_sum = is_half ? least_of_half : least_of_float;
    const FusedSum fused{is_narrow ? 13 : 25, is_half ? 10 : is_narrow ? 13 : 23, least_exponent(shape.a),
                         least_exponent(shape.b), least_sum, least_sum, is_half};
    for (unsigned t = 0; t < warpgroup_threads; t++) {
        const WgmmaOperands& own = *static_cast<const WgmmaOperands*>(threads[t].operands);
        const unsigned lane = t % 32, row = t / 32 * 16 + lane / 4;
        const auto sum_of = [&](unsigned i, float c) {
            const float* const a = matrices.a[row + i / 2 % 2 * 8];
            return fused(a, &matrices.b[lane % 4][0][i], most_wgmma_n / 2, depth_of(shape), own.accumulates ? c : 0);
        };
        for (unsigned i = 0; i < shape.n / 2; i++) {
            if (is_half) {
                uint32_t& pair = static_cast<uint32_t*>(own.d)[i / 2];
                const unsigned at = i % 2 * 16;
                const float sum = sum_of(i, half_value(static_cast<unsigned short>(pair >> at)));
                const uint32_t bits = sum != sum ? 0x7fff : half_bits(sum);
                pair = (pair & ~(0xffffu << at)) | bits << at;
            } else {
                float& d = static_cast<float*>(own.d)[i];
                d = sum_of(i, d);
            }
        }
    }
}

template <class Number>
inline void multiply_all(Thread* threads, const WgmmaShape& shape, const Matrices<Number>& matrices) {
    const unsigned k = depth_of(shape), count = shape.n / 2;
    if constexpr (static_cast<Number>(0.5) != 0) {
        if (numerics_are_hardwares()) return multiply_as_hardware(threads, shape, matrices);
    }
    for (unsigned t = 0; t < warpgroup_threads; t++) {
        const WgmmaOperands& own = *static_cast<const WgmmaOperands*>(threads[t].operands);
        if constexpr (static_cast<Number>(0.5) != 0) {
            if (shape.sums == Sums::f16) {
                multiply_halves(static_cast<uint32_t*>(own.d), count, t, matrices, k, own.accumulates);
                continue;
            }
        }
        multiply_thread(static_cast<Number*>(own.d), count, t, matrices, k, own.accumulates);
    }
}

/// Returns the metadata of the elements of a row of a sparse A that belong to the 32 bytes of K number `step`.
/// Source: PTX ISA, "Sparse matrix storage" and "Metadata layout for sparse wgmma".
inline uint32_t metadata_of(const WgmmaShape& shape, const Thread* threads, unsigned row, unsigned step) {
    const bool is_upper = row % 16 >= 8, has_narrow_elements = wgmma_k(shape.a) == 32;
    const unsigned pair = static_cast<const WgmmaOperands*>(threads[0].operands)->metadata_pair;
    const unsigned lane = row % 8 * 4 + (has_narrow_elements ? 2 * step + is_upper : 2 * pair + step);
    const uint32_t bits = static_cast<const WgmmaOperands*>(threads[row / 16 * 32 + lane].operands)->metadata;
    return has_narrow_elements ? bits : bits >> 16 * is_upper & 0xffff;
}

/// Puts the stored elements of a row at their places. Of each four elements, two are stored; of tf32's, one of each two,
/// whose metadata counts 16-bit parts.
template <class Number>
inline void expand_row(Number* to, const Number* stored, unsigned k, uint32_t metadata, Site site) {
    const bool is_tf32 = k == 8;
    const unsigned width = is_tf32 ? 2 : 4, kept = width / 2;
    for (unsigned i = 0; i < k; i++) to[i] = 0;
    for (unsigned group = 0; group < k / width; group++, stored += kept) {
        const unsigned bits = metadata >> 4 * group & 15, low = bits & 3, high = bits >> 2;
        if (stored[0] == 0 && stored[kept - 1] == 0) continue;  // such as rows outside of a tensor, which have no metadata
        if (low >= high || (is_tf32 && (low % 2 || high != low + 1))) fail(site, "wgmma.sp: the metadata 0x%x is invalid", bits);
        to[width * group + (is_tf32 ? low / 2 : low)] = stored[0];
        if (!is_tf32) to[width * group + high] = stored[1];
    }
}

template <class Number>
inline void read_a(Matrices<Number>& to, const WgmmaShape& shape, const Thread* threads, const race::Moment& issued, Site site) {
    const WgmmaOperands& first = *static_cast<const WgmmaOperands*>(threads[0].operands);
    if (first.a_registers) {
        read_registers(to.rows, threads);
    } else {
        read_rows(to.rows, SharedMatrix(*current_block, first.a, first.a_by_columns, issued, site), wgmma_m);
    }
    const Convert<Number> convert = converter<row_bytes, Number>(shape.a);
    const unsigned k = wgmma_k(shape.a);
    for (unsigned row = 0; row < wgmma_m; row++) {
        if (!shape.is_sparse) {
            convert(to.a[row], to.rows[row], first.sign_a);
            continue;
        }
        Number stored[most_wgmma_k];
        convert(stored, to.rows[row], first.sign_a);
        for (unsigned step = 0; step < 2; step++) {
            expand_row(to.a[row] + step * k, stored + step * k / 2, k, metadata_of(shape, threads, row, step), site);
        }
    }
}

/// Writes eight columns of a row of B to the copies. `numbers` has an element of each column, `stride` apart.
template <unsigned stride, class Number>
inline void spread(Matrices<Number>& to, unsigned k, unsigned column, const Number* numbers) {
    for (unsigned pair = 0; pair < 4; pair++) {
        const Number first = numbers[2 * pair * stride], second = numbers[(2 * pair + 1) * stride];
        const Number four[4] = {first, second, first, second};
        memcpy(&to.b[pair][k][column / 2], four, sizeof(four));
    }
}

/// Reads the 32 bytes of K number `step` of each column of B.
template <class Number>
inline void read_b(Matrices<Number>& to, const WgmmaShape& shape, const Thread* threads, const race::Moment& issued,
                   unsigned step, Site site) {
    const WgmmaOperands& first = *static_cast<const WgmmaOperands*>(threads[0].operands);
    const SharedMatrix from(*current_block, first.b, first.b_by_rows, issued, site);
    const unsigned k = wgmma_k(shape.b), begin = step * k;
    if (first.b_by_rows) {  // only elements of two bytes; eight columns are 16 contiguous bytes
        const Convert<Number> convert = converter<16, Number>(shape.b);
        for (unsigned i = begin; i < begin + k; i++) {
            for (unsigned column = 0; column < shape.n; column += 8) {
                Number numbers[16];
                convert(numbers, from.along_other(column / 8, i), first.sign_b);
                spread<1>(to, i, column, numbers);
            }
        }
        return;
    }
    read_rows(to.rows, from, shape.n, step);
    const Convert<Number> convert = converter<row_bytes, Number>(shape.b);
    for (unsigned column = 0; column < shape.n; column += 8) {
        Number numbers[8][most_wgmma_k];
        for (unsigned i = 0; i < 8; i++) convert(numbers[i], to.rows[column + i], first.sign_b);
        for (unsigned i = 0; i < k; i++) spread<most_wgmma_k>(to, begin + i, column, &numbers[0][i]);
    }
}

template <class Number>
inline void multiply_warpgroup(Thread* threads, const WgmmaShape& shape, Matrices<Number>& matrices, Site site) {
    const race::Moment issued = race::begin_product(threads[0], site);
    read_a(matrices, shape, threads, issued, site);
    for (unsigned step = 0; step < 1u + shape.is_sparse; step++) read_b(matrices, shape, threads, issued, step, site);
    race::end_reads_of_product();
    multiply_all(threads, shape, matrices);
}

/// Fails if the warpgroup's threads pass different descriptors or a different scale-d, because these apply to the whole
/// warpgroup.
inline void check_agreement(const Thread* threads, Site site) {
    const WgmmaOperands& first = *static_cast<const WgmmaOperands*>(threads[0].operands);
    for (unsigned t = 1; t < warpgroup_threads; t++) {
        const WgmmaOperands& other = *static_cast<const WgmmaOperands*>(threads[t].operands);
        if (other.a == first.a && other.b == first.b && other.accumulates == first.accumulates) continue;
        fail(site, "wgmma: the descriptors or scale-d of the warpgroup's thread %u differ from the first thread's", t);
    }
}

__attribute__((noinline)) void wgmma(const WgmmaShape& shape, WgmmaOperands& operands, Site site) {
    Thread& thread = *current_thread;
    Block& block = *thread.block;
    const unsigned number = thread.linear / warpgroup_threads;
    if ((number + 1) * warpgroup_threads > block.thread_count) {
        fail(site, "wgmma needs a warpgroup of 128 threads; the block has %u", block.thread_count);
    }
    if (shape.is_sparse && operands.metadata_pair > (wgmma_k(shape.a) == 32 ? 0 : 1)) {
        fail(site, "wgmma.sp: no lanes hold the metadata for the sparsity selector %u", operands.metadata_pair);
    }
    Warpgroup& group = block.warpgroups[number];
    thread.operands = &operands;
    if (++group.arrived < warpgroup_threads) {
        thread.next = nullptr;
        (group.first ? group.last->next : group.first) = &thread;
        group.last = &thread;
        wait_in(Operation::wgmma, site);
        return;
    }
    Thread* const threads = &block.threads[number * warpgroup_threads];
    check_agreement(threads, site);
    if (shape.sums == Sums::s32) {
        multiply_warpgroup(threads, shape, room_for_matrices<Matrices<int32_t>>(block, site), site);
    } else {
        multiply_warpgroup(threads, shape, room_for_matrices<Matrices<float>>(block, site), site);
    }
    group.arrived = 0;
    push_ready_list(block, group.first, group.last);
    group.first = nullptr;
    count_event(block);
    give_way();
}

}  // namespace tkjit::sim
