// Sums x over all devices, in place and in two shots: each device sums its share of the tensor, then copies the other
// shares from the other devices. Blocks are independent: a block waits only for blocks with its index on other devices.
#include "collective.cuh"

#include <tkjit/multimem.cuh>

template <typename T>
__device__ void sum_by_multicast(T* multicast, size_t begin, size_t end) {
    for (size_t vector = begin + first_vector(); vector < end; vector += vector_stride()) {
        T* const address = multicast + vector * Vector<T>::size;
        tkjit::multimem_store(address, tkjit::multimem_load_sum(address));
    }
}

template <typename T>
__global__ void __launch_bounds__(256) all_reduce(const __grid_constant__ Globals g) {
    const size_t n = g.x.numel();
    const size_t vectors = vectors_of<T>(n), share = (vectors + g.num_devices - 1) / g.num_devices;
    const auto meet = [&] { tkjit::device_barrier(g.signals, blockIdx.x, g.dev_idx, g.num_devices); };
    const auto begin_of = [&](int device) { return min(device * share, vectors); };
    T* const own = g.x[g.dev_idx].raw_ptr;

    meet();  // every x has been written
    if (g.x.multicast_ptr != nullptr && n % Vector<T>::size == 0) {
        sum_by_multicast(g.x.multicast_ptr, begin_of(g.dev_idx), begin_of(g.dev_idx + 1));
        meet();
        return;
    }
    for (size_t vector = begin_of(g.dev_idx) + first_vector(); vector < begin_of(g.dev_idx + 1); vector += vector_stride())
        store(own, vector, n, sum_of_devices<T>(g.x, g.num_devices, vector, n));
    meet();
    for (int i = 1; i < g.num_devices; ++i) {
        const int device = (g.dev_idx + i) % g.num_devices;  // staggered, so that not all read from the same device
        const T* const theirs = g.x[device].raw_ptr;
        for (size_t vector = begin_of(device) + first_vector(); vector < begin_of(device + 1); vector += vector_stride())
            store(own, vector, n, load(theirs, vector, n));
    }
    meet();  // no device reads this x any more
}
