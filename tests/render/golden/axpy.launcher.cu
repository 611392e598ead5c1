// Launcher of axpy for T=bfloat16, rendered by tkjit.
// arg_x is the argument x; v_N is the value of N.
#include <tkjit/launcher.h>
#include <cuda_bf16.h>

using T = __nv_bfloat16;

struct Globals {
    tkjit::gl<T, 1, 1, 1, -1> x;  // x: In[Tensor, "T", "N"]
    tkjit::gl<T, 1, 1, 1, -1> y;  // y: InOut[Tensor, "T", "N"]
    float alpha;                  // alpha: float = 1.0
};

#include <tkjit/source_main.h>
#line 1 "axpy.cu"
#include <tkjit/gl.h>

template <typename T>
__global__ void axpy(const __grid_constant__ Globals g) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < g.y.cols()) g.y[i] = T(g.alpha * float(g.x[i]) + float(g.y[i]));
}
#line 24 "launcher.cu"
#undef main

TKJIT_MARK_ENTRY(axpy<T>)

#ifdef __CUDACC_RTC__
static_assert(tkjit::takes_struct<decltype(&axpy<T>), Globals, 0>(), "the parameters of axpy<T>; the spec of axpy says otherwise");
TKJIT_LAYOUT(sizeof(Globals), offsetof(Globals, x.raw_ptr), offsetof(Globals, x.extents),
    offsetof(Globals, y.raw_ptr), offsetof(Globals, y.extents), offsetof(Globals, alpha),
    sizeof(Globals::alpha))
#else
extern "C" TKJIT_EXPORT const char* tkjit_launch(const TkjitArg* args, int32_t device, void* stream) {
    return tkjit::without_exceptions([&]() -> const char* {
        const TkjitArg &arg_x = args[0], &arg_y = args[1], &arg_alpha = args[2];
        const tkjit::Int v_N = arg_x.extents[0];

        const Globals globals{
            .x = tkjit::convert<decltype(Globals::x)>(arg_x),
            .y = tkjit::convert<decltype(Globals::y)>(arg_y),
            .alpha = tkjit::convert<decltype(Globals::alpha)>(arg_alpha),
        };
        tkjit::LaunchShape shape;
        shape.set_grid(cdiv(v_N, 256));
        shape.set_block(256);
        return tkjit::launch(axpy<T>, shape, device, stream, globals);
    });
}
#endif
