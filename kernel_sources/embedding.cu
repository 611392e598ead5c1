// Rows of a table. Each thread copies eight adjacent elements.
#include <tkjit/gl.h>
#include <tkjit/row.cuh>

template <typename T>
__global__ void embedding(const __grid_constant__ Globals g) {
    constexpr int size = tkjit::Group<T>::size;
    const int n = g.weight.cols(), groups = (n + size - 1) / size;
    const size_t number = size_t(blockIdx.x) * blockDim.x + threadIdx.x, row = number / groups;
    if (row >= g.index.numel()) return;
    const int col = number % groups * size;
    const int64_t index = g.index[row];
    tkjit::Group<T> group;
    if (index >= 0 && index < g.weight.rows()) {
        group = tkjit::load_group(g.weight.raw_ptr + size_t(index) * n, col, n);
    } else {
        for (T& element : group.element) element = T(NAN);
    }
    tkjit::store_group(g.y.raw_ptr + row * n, col, n, group);
}
