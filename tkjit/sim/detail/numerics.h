// The sums that tensor cores compute. With TKJIT_SIM_NUMERICS=hardware, they follow a published model bit for bit
// instead of being added in float32. Source: Xie et al., "MMA-Sim: Bit-Accurate Reference Model of Tensor Cores and
// Matrix Cores", arXiv 2511.10909.
#pragma once

namespace tkjit::sim {

/// Returns whether TKJIT_SIM_NUMERICS=hardware is set, so that sums follow that model.
bool numerics_are_hardwares();

/// Describes how a tensor core sums products. It adds all terms in one step, each of them truncated at a fixed distance
/// below the largest term's exponent.
struct FusedSum {
    int fraction_bits;                         // kept of each term, below the point of the largest one
    int result_bits;                           // of the result's fraction, which is truncated, or rounded if `rounds`
    int least_a, least_b, least_c, least_sum;  // the exponents of the smallest normal numbers
    bool rounds;                               // to nearest even; for sums that are halves

    /// Returns a[0] * b[0] + a[1] * b[b_step] + ... of k products, plus c.
    float operator()(const float* a, const float* b, unsigned b_step, unsigned k, float c) const;
};

inline constexpr int least_of_half = -14, least_of_float = -126;  // and of bfloat16 and tf32

}  // namespace tkjit::sim
