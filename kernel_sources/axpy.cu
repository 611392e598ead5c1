#include <tkjit/gl.h>

template <typename T>
__global__ void axpy(const __grid_constant__ Globals g) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < g.y.cols()) g.y[i] = T(g.alpha * float(g.x[i]) + float(g.y[i]));
}
