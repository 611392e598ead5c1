// A and B in fp8, with a scale for each 128 elements of a row of A, and for each 128 x 128 elements of B.
#include <deep_gemm/impls/sm90_fp8_gemm_1d2d.cuh>

#include "deepgemm.h"

using namespace deep_gemm;

// scales_of_a is (K / 128, M), and scales_of_b is (N / 128, K / 128)
void multiplied(const Fp8* a, const float* scales_of_a, const Fp8* b, const float* scales_of_b, __nv_bfloat16* d, int m, int n,
                int k) {
    constexpr int rows = 128, cols = 128, depth = 128, stages = 4, blocks = 4;
    const auto kernel = &sm90_fp8_gemm_1d2d_impl<cute::UMMA::Major::K, 0, 0, 0, 1, rows, cols, depth, 128, 128, 128, stages, 128,
                                                 256, 2, false, blocks, GemmType::Normal, cutlass::bfloat16_t,
                                                 epilogue::transform::EpilogueIdentity>;
    const size_t shared_bytes = rows * cols * 2 + stages * ((rows + cols) * depth + rows * 4 + 16) + (k / depth) * 8 + 1024;
    launch(kernel, blocks, 384, 2, shared_bytes, (float*)scales_of_b, (int*)nullptr, uint32_t(m), uint32_t(n), uint32_t(k),
           map_of(a, m, k, rows), map_of(b, n, k, cols), map_of(d, m, n, rows),
           plain_map_of(scales_of_a, k / depth, m, 1, rows));
}
