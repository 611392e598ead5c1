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
