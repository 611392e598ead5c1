// The operands of wgmma and tcgen05.mma: matrices in shared memory, whose layout a descriptor gives, and their elements.
#pragma once

#include "../check/copies.h"
#include "../check/race.h"
#include "../detail/block.h"
#include "../detail/fault.h"
#include "../detail/float16_rounding.h"
#include "../detail/fp8_rounding.h"
#include "../detail/site.h"
#include "../detail/tensor_map.h"
#include "../detail/wgmma.h"
#include "../detail/window.h"
#include "fault.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace tkjit::sim {

/// Source: PTX ISA, "Matrix Descriptor Format" and "Shared Memory Descriptor" (of tcgen05, whose swizzle has one more bit,
/// for a mode that the simulator lacks). The fields of 14 bits are addresses without their low four bits.
struct MatrixDescriptor {
    unsigned start, leading, stride, swizzle_bytes;

    explicit MatrixDescriptor(uint64_t bits)
        : start((bits & 0x3fff) << 4),
          leading((bits >> 16 & 0x3fff) << 4),
          stride((bits >> 32 & 0x3fff) << 4),
          swizzle_bytes(bits >> 62 ? 256u >> (bits >> 62) : 0) {}
};

/// A matrix that is stored in contiguous runs of 16 bytes, along K or (with `by_other`) along M or N. Source: PTX ISA,
/// "Strides" and "Canonical Layouts".
class SharedMatrix {
  public:
    SharedMatrix(const Block& owner, uint64_t bits, bool by_other, const race::Moment& issued, Site site)
        : owner_(owner), matrix_(bits), by_other_(by_other), issued_(issued), site_(site) {
        if (bits >> 49 & 7) fail(site, "the simulator supports only matrix descriptors with a base offset of 0");
    }

    /// Returns the 16 bytes that begin at unit `k_unit` of K, in row `other` (of M or N).
    const char* along_k(unsigned other, unsigned k_unit) const {
        const unsigned width = matrix_.swizzle_bytes ? matrix_.swizzle_bytes : 16, units = width / 16;
        return at(other % 8 * width + other / 8 * matrix_.stride + k_unit % units * 16 + k_unit / units * matrix_.leading);
    }

    /// Returns the 16 bytes that begin at unit `other_unit` of M or N, in row `k` of K.
    const char* along_other(unsigned other_unit, unsigned k) const {
        if (matrix_.swizzle_bytes == 0) {
            return at(other_unit * matrix_.stride + k % 8 * 16 + k / 8 * matrix_.leading);
        }
        const unsigned units = matrix_.swizzle_bytes / 16;
        return at(other_unit % units * 16 + other_unit / units * matrix_.leading + k % 8 * matrix_.swizzle_bytes +
                  k / 8 * matrix_.stride);
    }

    bool by_other() const { return by_other_; }

  private:
    const char* at(unsigned offset) const {
        const unsigned in_owner = swizzled(matrix_.start + offset, matrix_.swizzle_bytes);
        if (in_owner > window_bytes - 16) {
            fail(site_, "the shared address 0x%x, of 16 bytes, is outside of the block's %u KiB", in_owner, window_bytes >> 10);
        }
        const char* const place = owner_.window + in_owner;
        check::may_use(place, 16, "read", site_);
        race::read_meanwhile(place, 16, issued_);
        return place;
    }

    const Block& owner_;  // of the shared memory
    MatrixDescriptor matrix_;
    bool by_other_;
    race::Moment issued_;
    Site site_;
};

template <Element element>
inline auto element_value(const char* bytes) {
    if constexpr (element == Element::f16 || element == Element::bf16) {
        unsigned short bits;
        memcpy(&bits, bytes, 2);
        return element == Element::f16 ? half_value(bits) : bfloat16_value(bits);
    } else if constexpr (element == Element::tf32) {  // reads only 10 bits of the mantissa
        uint32_t bits;
        memcpy(&bits, bytes, 4);
        return __builtin_bit_cast(float, bits & 0xffffe000u);
    } else if constexpr (element == Element::e4m3) {
        return e4m3_value(static_cast<unsigned char>(*bytes));
    } else if constexpr (element == Element::e5m2) {
        return fp8_value(static_cast<unsigned char>(*bytes), __NV_E5M2);
    } else if constexpr (element == Element::s8) {
        return static_cast<int32_t>(static_cast<signed char>(*bytes));
    } else {
        return static_cast<int32_t>(static_cast<unsigned char>(*bytes));
    }
}

inline constexpr unsigned row_bytes = 32;  // of a row of A or a column of B, along K, that an instruction multiplies

/// Reads rows of A, or columns of B, from the 32 bytes number `step` of K on. Only elements of one or two bytes can be
/// contiguous along M or N.
template <unsigned element_bytes = 2>
inline void read_rows(char (*rows)[row_bytes], const SharedMatrix& from, unsigned count, unsigned step = 0) {
    if (!from.by_other()) {
        for (unsigned row = 0; row < count; row++) {
            for (unsigned unit = 0; unit < 2; unit++) memcpy(rows[row] + 16 * unit, from.along_k(row, 2 * step + unit), 16);
        }
        return;
    }
    constexpr unsigned width = 16 / element_bytes, depth = row_bytes / element_bytes;
    for (unsigned i = 0; i < depth; i++) {
        for (unsigned unit = 0; unit * width < count; unit++) {
            const char* const bytes = from.along_other(unit, step * depth + i);
            for (unsigned e = 0; e < width && unit * width + e < count; e++) {
                memcpy(rows[width * unit + e] + element_bytes * i, bytes + element_bytes * e, element_bytes);
            }
        }
    }
}

template <class Number, unsigned lanes>
struct Several {
    typedef Number type __attribute__((vector_size(lanes * sizeof(Number))));
};

/// Returns the block's buffer for the operands of a product as numbers.
template <class Matrices>
inline Matrices& room_for_matrices(Block& block, Site site) {
    constexpr size_t room_bytes = 160 << 10;
    static_assert(sizeof(Matrices) <= room_bytes);
    if (block.matrices == nullptr) block.matrices = aligned_alloc(64, room_bytes);
    if (block.matrices == nullptr) fail(site, "out of memory for the operands of a matrix product");
    return *static_cast<Matrices*>(block.matrices);
}

}  // namespace tkjit::sim
