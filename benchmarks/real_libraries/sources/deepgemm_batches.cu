// The sum of products over a batch, split over K and added to D atomically.
#include <deep_gemm/impls/sm90_bmk_bnk_mn.cuh>

#include "deepgemm.h"

using namespace deep_gemm;

void multiplied(const __nv_bfloat16* a, const __nv_bfloat16* b, float* d, int batches) {
    constexpr int rows = 128, cols = 128, depth = 64, stages = 4, steps_of_block = 3;
    const int blocks = ROWS / rows * (COLS / cols), steps = batches * (DEPTH / depth);
    const auto kernel = &sm90_bmn_bnk_mn_gemm_impl<ROWS, COLS, DEPTH, rows, cols, depth, steps_of_block, stages, 128, 256>;
    const size_t shared_bytes = stages * ((rows + cols) * depth * 2 + 16);
    launch(kernel, blocks * ((steps + steps_of_block - 1) / steps_of_block), 384, 1, shared_bytes,
           uint32_t(batches), map_of(a, batches * ROWS, DEPTH, rows),
           map_of(b, batches * COLS, DEPTH, cols), d);
}
