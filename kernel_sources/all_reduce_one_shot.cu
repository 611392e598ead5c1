// y <- the sum of all devices' x in one shot: each device reads all of every x. For small tensors, which it saves a round.
#include "collective.cuh"

template <typename T>
__global__ void __launch_bounds__(256) all_reduce_one_shot(const __grid_constant__ Globals g) {
    const size_t n = g.x.numel();
    tkjit::device_barrier(g.signals, blockIdx.x, g.dev_idx, g.num_devices);  // what ran before has written every x
    for (size_t vector = first_vector(); vector < vectors_of<T>(n); vector += vector_stride())
        store(g.y.raw_ptr, vector, n, sum_of_devices<T>(g.x, g.num_devices, vector, n));
    tkjit::device_barrier(g.signals, blockIdx.x, g.dev_idx, g.num_devices);  // nobody reads this device's x any more
}
