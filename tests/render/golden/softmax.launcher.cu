// Launcher of softmax for T=float32, rendered by tkjit.
// arg_x is the argument x; v_N is the value of N.
#include <tkjit/launcher.h>

using T = float;

struct Globals {
    tkjit::gl<T, -1, -1, -1, -1> x;  // x: In[Tensor, "T", "...", "N"]
    tkjit::gl<T, -1, -1, -1, -1> y;  // y: Out[Tensor, "T", "...", "N"]
};

#include <tkjit/source_main.h>
#line 1 "softmax.cu"
// A block for each row. It reads the row twice; the second time, the row is in a cache unless it is very long.
#include <tkjit/gl.h>

#include "online_softmax.cuh"

template <typename T>
__global__ void __launch_bounds__(1024) softmax(const __grid_constant__ Globals g) {
    const int n = g.x.cols();
    const T* const x = g.x.raw_ptr + size_t(blockIdx.x) * n;
    T* const y = g.y.raw_ptr + size_t(blockIdx.x) * n;
    const Normalizer normalizer = normalizer_of(x, n);
    tkjit::each_group(x, 0, n, [&](const tkjit::Group<T>& group, int col) {
        tkjit::Group<T> shares;
#pragma unroll
        for (int i = 0; i < group.size; ++i) shares.element[i] = T(normalizer.share_of(float(group.element[i])));
        tkjit::store_group(y, col, n, shares);
    });
}
#line 33 "launcher.cu"
#undef main

TKJIT_MARK_ENTRY(softmax<T>)

#ifdef __CUDACC_RTC__
static_assert(tkjit::takes_struct<decltype(&softmax<T>), Globals, 0>(), "the parameters of softmax<T>; the spec of softmax says otherwise");
TKJIT_LAYOUT(sizeof(Globals), offsetof(Globals, x.raw_ptr), offsetof(Globals, x.extents),
    offsetof(Globals, y.raw_ptr), offsetof(Globals, y.extents))
#else
extern "C" TKJIT_EXPORT const char* tkjit_launch(const TkjitArg* args, int32_t device, void* stream) {
    return tkjit::without_exceptions([&]() -> const char* {
        const TkjitArg &arg_x = args[0], &arg_y = args[1];
        const tkjit::Int v_N = arg_x.extents[arg_x.rank - 1];
        const tkjit::Int batch_of_x = tkjit::padded_extent(arg_x, 0);
        const tkjit::Int depth_of_x = tkjit::padded_extent(arg_x, 1);
        const tkjit::Int rows_of_x = tkjit::padded_extent(arg_x, 2);

        const Globals globals{
            .x = tkjit::convert<decltype(Globals::x)>(arg_x),
            .y = tkjit::convert<decltype(Globals::y)>(arg_y),
        };
        tkjit::LaunchShape shape;
        shape.set_grid(batch_of_x * depth_of_x * rows_of_x);
        shape.set_block(32 * min(32, max(1, cdiv(v_N, 512))));
        return tkjit::launch(softmax<T>, shape, device, stream, globals);
    });
}
#endif
