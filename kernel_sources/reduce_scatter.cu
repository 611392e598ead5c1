// Sums x over all devices, and gives each device its share of the rows in y. Each device reads its share of every x.
#include "collective.cuh"

template <typename T>
__global__ void __launch_bounds__(256) reduce_scatter(const __grid_constant__ Globals g) {
    const size_t n = g.y.numel(), begin = g.dev_idx * n;
    tkjit::device_barrier(g.signals, blockIdx.x, g.dev_idx, g.num_devices);  // every x has been written
    if (n % Vector<T>::size == 0) {
        const size_t first = begin / Vector<T>::size;
        for (size_t vector = first_vector(); vector < vectors_of<T>(n); vector += vector_stride())
            store(g.y.raw_ptr, vector, n, sum_of_devices<T>(g.x, g.num_devices, first + vector, g.x.numel()));
    } else {  // the shares are not aligned to vectors
        for (size_t element = first_vector(); element < n; element += vector_stride()) {
            float sum = 0.f;
            for (int device = 0; device < g.num_devices; ++device) sum += float(g.x[device][begin + element]);
            g.y[element] = T(sum);
        }
    }
    tkjit::device_barrier(g.signals, blockIdx.x, g.dev_idx, g.num_devices);  // no device reads this x any more
}
