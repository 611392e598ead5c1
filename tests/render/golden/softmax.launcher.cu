// Launcher of softmax for T=float32, rendered by tkjit.
// arg_x is the argument x; v_N is the value of N.
#include <tkjit/launcher.h>

using T = float;

struct Globals {
    tkjit::gl<T, -1, -1, -1, -1> x;  // x: In[Tensor, "T", "...", "N"]
    tkjit::gl<T, -1, -1, -1, -1> y;  // y: Out[Tensor, "T", "...", "N"]
};

#ifdef TKJIT_HOST_HALF
#include "device_code.inc"
#else
#include <tkjit/source_main.h>
#line 1 "softmax.cu"
// One block of 256 threads per row. Each thread walks the row with a stride of the block's size.
#include <tkjit/gl.h>
#include <tkjit/reduce.cuh>

constexpr int kThreads = 256;

template <typename T>
__global__ void softmax(const __grid_constant__ Globals g) {
    const int n = g.x.cols();
    const T* x = g.x.raw_ptr + size_t(blockIdx.x) * n;
    T* y = g.y.raw_ptr + size_t(blockIdx.x) * n;

    float largest = tkjit::Max::identity;
    for (int i = threadIdx.x; i < n; i += blockDim.x) largest = tkjit::Max::combine(largest, float(x[i]));
    largest = tkjit::block_reduce<tkjit::Max, kThreads>(largest);

    float sum = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += __expf(float(x[i]) - largest);
    sum = tkjit::block_reduce<tkjit::Sum, kThreads>(sum);

    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = T(__expf(float(x[i]) - largest) / sum);
}
#line 40 "launcher.cu"
#undef main

TKJIT_MARK_ENTRY(softmax<T>)

#endif

TKJIT_SAME_LAYOUT(sizeof(Globals), alignof(Globals), offsetof(Globals, x), offsetof(Globals, y))

#ifndef __CUDACC_RTC__
extern "C" TKJIT_EXPORT const char* tkjit_launch(const TkjitArg* args, int32_t device, void* stream) {
    return tkjit::without_exceptions([&]() -> const char* {
        const TkjitArg &arg_x = args[0], &arg_y = args[1];
        const tkjit::Int batch_of_x = tkjit::padded_extent(arg_x, 0);
        const tkjit::Int depth_of_x = tkjit::padded_extent(arg_x, 1);
        const tkjit::Int rows_of_x = tkjit::padded_extent(arg_x, 2);

        const Globals globals{
            .x = tkjit::convert<decltype(Globals::x)>(arg_x),
            .y = tkjit::convert<decltype(Globals::y)>(arg_y),
        };
        tkjit::LaunchShape shape;
        shape.set_grid(batch_of_x * depth_of_x * rows_of_x);
        shape.set_block(256);
        return tkjit::launch(TKJIT_KERNEL(softmax<T>), shape, device, stream, globals);
    });
}
#endif
