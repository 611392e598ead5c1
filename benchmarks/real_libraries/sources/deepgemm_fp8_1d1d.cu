// A and B in fp8, with a scale for each 128 elements of a row. The product is added to D.
#include <deep_gemm/impls/sm90_fp8_gemm_1d1d.cuh>

#include "deepgemm.h"

using namespace deep_gemm;

// the scales are (K / 128, M) and (K / 128, N)
void multiplied(const Fp8* a, const float* scales_of_a, const Fp8* b, const float* scales_of_b, float* d, int m, int n, int k) {
    constexpr int rows = 128, cols = 128, depth = 128, stages = 3, blocks = 4;
    const auto kernel = &sm90_fp8_gemm_1d1d_impl<0, 0, 0, 1, rows, cols, depth, 128, 128, stages, 128, 256, 2, true, blocks,
                                                 GemmType::Normal, float>;
    const size_t shared_bytes = rows * cols * 4 + stages * ((rows + cols) * depth + (rows + cols) * 4 + 16) + 1024;
    launch(kernel, blocks, 384, 2, shared_bytes,
           (Fp8*)nullptr, (Fp8*)nullptr, (int*)nullptr, (cute::TmaDescriptor*)nullptr, uint32_t(m),
           uint32_t(n), uint32_t(k), map_of(a, m, k, rows), map_of(b, n, k, cols),
           plain_map_of(scales_of_a, k / depth, m, 1, rows), plain_map_of(scales_of_b, k / depth, n, 1, cols),
           plain_map_of(d, m, n, 64, cols));
}
