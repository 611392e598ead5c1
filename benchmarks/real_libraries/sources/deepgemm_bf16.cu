// After the header with the kernel.
#include "deepgemm.h"

using namespace deep_gemm;
using Number = __nv_bfloat16;

void multiplied(const Number* a, const Number* b, Number* d, int m, int n, int k) {
    constexpr int rows = 128, cols = 128, loaded_cols = LOADED_COLS, depth = 64, stages = 4, blocks = 4;
    constexpr auto by_k = cute::UMMA::Major::K;
    const auto kernel = &KERNEL<by_k, by_k, 0, 0, 0, OPTIONS>;
    const size_t shared_bytes = (rows * cols + stages * (rows + loaded_cols) * depth) * sizeof(Number) + 1024;
    launch(kernel, blocks, THREADS, 2, shared_bytes,
           (int*)nullptr, uint32_t(m), uint32_t(n), uint32_t(k), map_of(a, m, k, rows),
           map_of(b, n, k, loaded_cols), map_of(d, m, n, rows));
}
