// How tensor cores add up: TKJIT_SIM_NUMERICS=hardware follows a published model of them, bit for bit, instead of adding in
// float32. Source: Xie et al., "MMA-Sim: Bit-Accurate Reference Model of Tensor Cores and Matrix Cores", arXiv 2511.10909.
#pragma once

namespace tkjit::sim {

/// Whether products follow the model.
bool numerics_are_hardwares();

/// A sum of products as a tensor core makes it: all terms at once, cut off at a place below the largest one's exponent.
struct FusedSum {
    int fraction_bits;                         // behind the point of the largest term, of which no more are kept
    int result_bits;                           // of the result's fraction; cut off, of a half rounded to even
    int least_a, least_b, least_c, least_sum;  // the exponents of the smallest normal numbers
    bool rounds;

    /// a[0] * b[0] + a[1] * b[b_step] + ... of k products, and c.
    float operator()(const float* a, const float* b, unsigned b_step, unsigned k, float c) const;
};

inline constexpr int least_of_half = -14, least_of_float = -126;  // and of bfloat16 and tf32

}  // namespace tkjit::sim
