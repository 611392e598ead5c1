// Rounding of floats to tf32.
#pragma once

#include <stdint.h>

namespace tkjit::sim {

/// Returns the bits of a float, given by its bits, with ten bits of mantissa; ties are rounded away from zero.
inline uint32_t rounded_to_tf32(uint32_t bits) {
    if ((bits & 0x7f800000) != 0x7f800000) return (bits + 0x1000) & ~0x1fffu;
    return bits & 0x007fffff ? 0x7fffffff : bits;  // NaN and infinity
}

}  // namespace tkjit::sim
