// Sums x over all devices into y in one shot: each device reads every x completely. Saves a round for small tensors.
#include "collective.cuh"

template <typename T>
__global__ void __launch_bounds__(256) all_reduce_one_shot(const __grid_constant__ Globals g) {
    const size_t n = g.x.numel();
    tkjit::device_barrier(g.signals, blockIdx.x, g.dev_idx, g.num_devices);  // every x has been written
    for (size_t vector = first_vector(); vector < vectors_of<T>(n); vector += vector_stride())
        store(g.y.raw_ptr, vector, n, sum_of_devices<T>(g.x, g.num_devices, vector, n));
    tkjit::device_barrier(g.signals, blockIdx.x, g.dev_idx, g.num_devices);  // no device reads this x any more
}
