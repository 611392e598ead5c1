// Launcher of axpy for T=bfloat16, rendered by tkjit.
#include <tkjit/launcher.h>
#include <cuda_bf16.h>

using T = __nv_bfloat16;

struct Globals {
    tkjit::gl<T, 1, 1, 1, -1> x;  // x: In[Tensor, "T", "N"]
    tkjit::gl<T, 1, 1, 1, -1> y;  // y: InOut[Tensor, "T", "N"]
    float alpha;                  // alpha: float = 1.0
};

#define main tkjit_source_main
#line 1 "axpy.cu"
#include <tkjit/gl.h>

template <typename T>
__global__ void axpy(const __grid_constant__ Globals g) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < g.y.cols()) g.y[i] = T(g.alpha * float(g.x[i]) + float(g.y[i]));
}
#line 23 "launcher.cu"
#undef main

TKJIT_MARK_ENTRY(axpy<T>)

extern "C" TKJIT_EXPORT const char* tkjit_launch(const TkjitArg* args, int32_t device, void* stream) {
    return tkjit::without_exceptions([&]() -> const char* {
        const tkjit::Int v_N = args[0].extents[3];

        const Globals globals{
            .x = tkjit::convert<decltype(Globals::x)>(args[0]),
            .y = tkjit::convert<decltype(Globals::y)>(args[1]),
            .alpha = tkjit::convert<decltype(Globals::alpha)>(args[2]),
        };
        tkjit::LaunchShape shape;
        shape.set_grid(cdiv(v_N, 256));
        shape.set_block(256);
        return tkjit::launch(axpy<T>, shape, device, stream, globals);
    });
}
