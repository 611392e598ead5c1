// C = A * B, row-major, any M, N and K: a block computes a tile of 128 x 128.
#include "gemm_tile.cuh"

template <typename T>
struct Problem {
    tkjit::gl<T, 1, 1> a, b, c;
};

/// The launch parameters, read by the spec.
template <typename T>
struct Launch {
    static constexpr int threads = kThreads;
    static constexpr size_t shared_bytes = 2 * Tile<T>::stage_elements * sizeof(T);
    static size_t blocks(size_t m, size_t n) { return (m + kTileM - 1) / kTileM * ((n + kTileN - 1) / kTileN); }
};

template <typename T>
__global__ void __launch_bounds__(kThreads) gemm(const __grid_constant__ Problem<T> g) {
    TKJIT_DYNAMIC_SHARED(T, stages);
    multiply(stages, g.a, g.b, g.c);
}
