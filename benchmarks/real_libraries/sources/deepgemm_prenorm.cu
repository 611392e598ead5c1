// A in bf16 times B in tf32, and the sums of the squares of A's rows.
#include <deep_gemm/impls/sm90_tf32_hc_prenorm_gemm.cuh>

#include "deepgemm.h"

using namespace deep_gemm;

void multiplied(const __nv_bfloat16* a, const float* b, float* d, float* squares, int m) {
    constexpr int rows = 64, cols = 32, depth = 64, stages = 6;
    const auto kernel = &sm90_tf32_hc_prenorm_gemm_impl<COLS, DEPTH, rows, cols, depth, 1, 128, stages, 128, 128>;
    const size_t shared_bytes = rows * 128 + stages * (rows * depth * 2 + cols * depth * 4 + 16) + 1024;
    launch(kernel, (m + rows - 1) / rows, 256, 1, shared_bytes, uint32_t(m), map_of(a, m, DEPTH, rows),
           map_of(b, COLS, DEPTH, cols, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32), map_of(d, m, COLS, rows), squares);
}
