#include <tkjit/gl.h>

// Each block copies one row of y.
template <typename T>
__global__ void permute_heads(const __grid_constant__ Globals g) {
    const int heads = g.y.depth(), steps = g.y.rows(), width = g.y.cols();
    const int step = blockIdx.x % steps, head = blockIdx.x / steps % heads, batch = blockIdx.x / steps / heads;
    const size_t source = ((size_t(batch) * steps + step) * heads + head) * width;
    const size_t target = size_t(blockIdx.x) * width;
    for (int d = threadIdx.x; d < width; d += blockDim.x) g.y[target + d] = g.x[source + d];
}
