// Launcher of gemm for T=float16, rendered by tkjit.
// arg_x is the argument x; v_N is the value of N.
#include <tkjit/launcher.h>
#include <cuda_fp16.h>

using T = __half;

struct Globals {
    tkjit::gl<T, 1, 1, -1, -1> a;  // a: In[Tensor, "T", "M", "K"]
    tkjit::gl<T, 1, 1, -1, -1> b;  // b: In[Tensor, "T", "K", "N"]
    tkjit::gl<T, 1, 1, -1, -1> c;  // c: Out[Tensor, "T", "M", "N"]
};

#define main tkjit_source_main
#line 1 "gemm.cu"
// C = A * B, row-major, any M, N and K: a block computes a tile of 128 x 128.
#include "gemm_tile.cuh"

template <typename T>
__global__ void __launch_bounds__(kThreads) gemm(const __grid_constant__ Globals g) {
    TKJIT_DYNAMIC_SHARED(T, stages);
    const int m = g.c.rows(), n = g.c.cols(), k = g.a.cols();
    // one index for all tiles, since only the grid's x is large enough for any M
    const int tiles_in_row = (n + kTileN - 1) / kTileN;
    const int first_row = blockIdx.x / tiles_in_row * kTileM, first_col = blockIdx.x % tiles_in_row * kTileN;
    const Accumulator<T> tile = multiply_tile(stages, g.a.raw_ptr, g.b.raw_ptr, m, n, k, first_row, first_col);
    tile.for_each([&](int row, int col, float value) {
        if (first_row + row < m && first_col + col < n) g.c(first_row + row, first_col + col) = T(value);
    });
}
#line 32 "launcher.cu"
#undef main

TKJIT_MARK_ENTRY(gemm<T>)

extern "C" TKJIT_EXPORT const char* tkjit_launch(const TkjitArg* args, int32_t device, void* stream) {
    return tkjit::without_exceptions([&]() -> const char* {
        const TkjitArg &arg_a = args[0], &arg_b = args[1], &arg_c = args[2];
        const tkjit::Int v_M = arg_a.extents[0];
        const tkjit::Int v_N = arg_b.extents[1];

        const Globals globals{
            .a = tkjit::convert<decltype(Globals::a)>(arg_a),
            .b = tkjit::convert<decltype(Globals::b)>(arg_b),
            .c = tkjit::convert<decltype(Globals::c)>(arg_c),
        };
        tkjit::LaunchShape shape;
        shape.set_grid(cdiv(v_M, 128) * cdiv(v_N, 128));
        shape.set_block(256);
        shape.set_shared_memory(37888);
        return tkjit::launch(gemm<T>, shape, device, stream, globals);
    });
}
