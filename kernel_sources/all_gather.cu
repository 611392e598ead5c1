// Stacks the rows of x from all devices into y, in device order. Each device reads the x of the others.
#include "collective.cuh"

template <typename T>
__global__ void __launch_bounds__(256) all_gather(const __grid_constant__ Globals g) {
    const size_t n = g.x.numel();
    tkjit::device_barrier(g.signals, blockIdx.x, g.dev_idx, g.num_devices);  // every x has been written
    for (int i = 0; i < g.num_devices; ++i) {
        const int device = (g.dev_idx + i) % g.num_devices;  // staggered, so that not all read from the same device
        T* const target = g.y.raw_ptr + device * n;
        const T* const source = g.x[device].raw_ptr;
        if (n % Vector<T>::size == 0) {
            for (size_t vector = first_vector(); vector < vectors_of<T>(n); vector += vector_stride())
                store(target, vector, n, load(source, vector, n));
        } else {  // the parts are not aligned to vectors
            for (size_t element = first_vector(); element < n; element += vector_stride()) target[element] = source[element];
        }
    }
    tkjit::device_barrier(g.signals, blockIdx.x, g.dev_idx, g.num_devices);  // no device reads this x any more
}
