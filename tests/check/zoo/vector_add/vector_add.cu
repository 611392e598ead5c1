// Four elements per thread, as one vector if at least four are left.
#include <tkjit/gl.h>

__global__ void vector_add(const __grid_constant__ Globals g) {
    const int n = g.c.cols();
    const int first = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (first + 4 <= n) {
        const float4 a = *reinterpret_cast<const float4*>(&g.a[first]);
        const float4 b = *reinterpret_cast<const float4*>(&g.b[first]);
        *reinterpret_cast<float4*>(&g.c[first]) = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    } else {
        for (int i = first; i < n; i++) g.c[i] = g.a[i] + g.b[i];
    }
}
