// Calls of CUB's algorithms for a whole device, for tests/sim/test_cub_device.py and test_nvcc_cub.py. Each returns an
// error code, and writes results to the caller's arrays.
#include <cub/cub.cuh>
#include <cuda/functional>
#include <cuda/std/functional>

#include <cstdint>

#define EXPORT extern "C" __attribute__((visibility("default")))

// Calls an algorithm first to get the size of its temporary storage, then to run it.
template <class Call>
int in_two_phases(Call call) {
    size_t bytes = 0;
    void* temp = nullptr;
    if (const cudaError_t error = call(nullptr, bytes)) return error;
    if (bytes == 0) return -1;
    if (const cudaError_t error = cudaMalloc(&temp, bytes)) return error;
    const cudaError_t error = call(temp, bytes);
    cudaFree(temp);
    return error ? error : cudaDeviceSynchronize();
}

struct IsOdd {
    template <class T>
    __host__ __device__ bool operator()(T value) const {
        return static_cast<int>(value) % 2 != 0;
    }
};
struct IsSmall {
    template <class T>
    __host__ __device__ bool operator()(T value) const {
        return value < T(10);
    }
};
struct Greater {
    template <class T>
    __host__ __device__ bool operator()(const T& a, const T& b) const {
        return b < a;
    }
};
struct Square {
    template <class T>
    __host__ __device__ T operator()(T value) const {
        return value * value;
    }
};

// y: sum, min, max, 5 plus the sum, sum of squares, and the elements that ArgMax and ArgMin find, at `indices`
template <class T, class N>
int reduce(const T* x, T* y, std::int64_t* indices, N n) {
    if (int e = in_two_phases([=](void* t, size_t& b) { return cub::DeviceReduce::Sum(t, b, x, y, n); })) return e;
    if (int e = in_two_phases([=](void* t, size_t& b) { return cub::DeviceReduce::Min(t, b, x, y + 1, n); })) return e;
    if (int e = in_two_phases([=](void* t, size_t& b) { return cub::DeviceReduce::Max(t, b, x, y + 2, n); })) return e;
    if (int e = in_two_phases([=](void* t, size_t& b) {
            return cub::DeviceReduce::Reduce(t, b, x, y + 3, n, cuda::std::plus<>{}, T(5));
        }))
        return e;
    if (int e = in_two_phases([=](void* t, size_t& b) {
            return cub::DeviceReduce::TransformReduce(t, b, x, y + 4, n, cuda::std::plus<>{}, Square{}, T(0));
        }))
        return e;
    if (int e = in_two_phases([=](void* t, size_t& b) {
            return cub::DeviceReduce::ArgMax(t, b, x, y + 5, indices, static_cast<std::int64_t>(n));
        }))
        return e;
    return in_two_phases([=](void* t, size_t& b) {
        return cub::DeviceReduce::ArgMin(t, b, x, y + 6, indices + 1, static_cast<std::int64_t>(n));
    });
}

// Writes six rows of n elements to y, one for each scan.
template <class T, class N>
int scan(const T* x, T* y, std::int64_t*, N n) {
    if (int e = in_two_phases([=](void* t, size_t& b) { return cub::DeviceScan::ExclusiveSum(t, b, x, y, n); })) return e;
    if (int e = in_two_phases([=](void* t, size_t& b) { return cub::DeviceScan::InclusiveSum(t, b, x, y + n, n); })) {
        return e;
    }
    if (int e = in_two_phases([=](void* t, size_t& b) {
            return cub::DeviceScan::ExclusiveScan(t, b, x, y + 2 * n, cuda::maximum<>{}, T(3), n);
        }))
        return e;
    if (int e = in_two_phases([=](void* t, size_t& b) {
            return cub::DeviceScan::InclusiveScan(t, b, x, y + 3 * n, cuda::minimum<>{}, n);
        }))
        return e;
    if (int e = in_two_phases([=](void* t, size_t& b) {
            return cub::DeviceScan::InclusiveSumByKey(t, b, x, x, y + 4 * n, n);
        }))
        return e;
    return cudaMemcpy(y + 5 * n, x, n * sizeof(T), cudaMemcpyDefault) ||
           in_two_phases([=](void* t, size_t& b) { return cub::DeviceScan::ExclusiveSum(t, b, y + 5 * n, n); });
}

// Writes six rows: keys in ascending and in descending order; pairs in ascending order, in descending order (in double
// buffers), and in the order of a merge sort; keys in ascending order within each segment.
template <class T, class N>
int sort(const T* x, T* y, std::int64_t* indices, N n) {
    if (int e = in_two_phases([=](void* t, size_t& b) { return cub::DeviceRadixSort::SortKeys(t, b, x, y, n); })) return e;
    if (int e = in_two_phases([=](void* t, size_t& b) {
            return cub::DeviceRadixSort::SortKeysDescending(t, b, x, y + n, n);
        }))
        return e;
    const std::int64_t* const unsorted = indices + 3 * n;
    if (int e = in_two_phases([=](void* t, size_t& b) {
            return cub::DeviceRadixSort::SortPairs(t, b, x, y + 2 * n, unsorted, indices, n);
        }))
        return e;
    cub::DoubleBuffer<T> keys(y + 3 * n, y + 6 * n);
    cub::DoubleBuffer<std::int64_t> values(indices + n, indices + 4 * n);
    cudaMemcpy(keys.Current(), x, n * sizeof(T), cudaMemcpyDefault);
    cudaMemcpy(values.Current(), unsorted, n * sizeof(std::int64_t), cudaMemcpyDefault);
    if (int e = in_two_phases([&](void* t, size_t& b) {
            return cub::DeviceRadixSort::SortPairsDescending(t, b, keys, values, n);
        }))
        return e;
    cudaMemcpy(y + 3 * n, keys.Current(), n * sizeof(T), cudaMemcpyDefault);
    cudaMemcpy(indices + n, values.Current(), n * sizeof(std::int64_t), cudaMemcpyDefault);
    cudaMemcpy(y + 4 * n, x, n * sizeof(T), cudaMemcpyDefault);
    cudaMemcpy(indices + 2 * n, unsorted, n * sizeof(std::int64_t), cudaMemcpyDefault);
    if (int e = in_two_phases([=](void* t, size_t& b) {
            return cub::DeviceMergeSort::StableSortPairs(t, b, y + 4 * n, indices + 2 * n, n, Greater{});
        }))
        return e;
    int* offsets;
    cudaMalloc(&offsets, 4 * sizeof(int));
    const int bounds[] = {0, static_cast<int>(n) / 3, static_cast<int>(n) / 3, static_cast<int>(n)};
    cudaMemcpy(offsets, bounds, sizeof bounds, cudaMemcpyDefault);
    const int e = in_two_phases([=](void* t, size_t& b) {
        return cub::DeviceSegmentedSort::SortKeys(t, b, x, y + 5 * n, n, 3, offsets, offsets + 1);
    });
    cudaFree(offsets);
    return e;
}

// Rows: odd items, flagged items, unique items, a partition, the first items of runs, the sums of runs. `indices` gets
// the count of each, and the lengths of the runs.
template <class T, class N>
int select(const T* x, T* y, std::int64_t* indices, N n) {
    std::int64_t* const lengths = indices + 8;
    if (int e = in_two_phases([=](void* t, size_t& b) { return cub::DeviceSelect::If(t, b, x, y, indices, n, IsOdd{}); })) {
        return e;
    }
    if (int e = in_two_phases([=](void* t, size_t& b) {
            return cub::DeviceSelect::Flagged(t, b, x, x, y + n, indices + 1, n);
        }))
        return e;
    if (int e = in_two_phases([=](void* t, size_t& b) {
            return cub::DeviceSelect::Unique(t, b, x, y + 2 * n, indices + 2, n);
        }))
        return e;
    if (int e = in_two_phases([=](void* t, size_t& b) {
            return cub::DevicePartition::If(t, b, x, y + 3 * n, indices + 3, n, IsOdd{});
        }))
        return e;
    if (int e = in_two_phases([=](void* t, size_t& b) {
            return cub::DeviceRunLengthEncode::Encode(t, b, x, y + 4 * n, lengths, indices + 4, n);
        }))
        return e;
    return in_two_phases([=](void* t, size_t& b) {
        return cub::DeviceReduce::ReduceByKey(t, b, x, y + 4 * n, x, y + 5 * n, indices + 5, cuda::std::plus<>{}, n);
    });
}

// Counts in bins of width 1.5 from 0 to 6, and in bins between 0, 1, 4 and 5.
template <class T, class N>
int histogram(const T* x, T*, std::int64_t* indices, N n) {
    unsigned long long* const counts = reinterpret_cast<unsigned long long*>(indices);
    float* levels;
    cudaMalloc(&levels, 4 * sizeof(float));
    const float bounds[] = {0, 1, 4, 5};
    cudaMemcpy(levels, bounds, sizeof bounds, cudaMemcpyDefault);
    int e = in_two_phases([=](void* t, size_t& b) {
        return cub::DeviceHistogram::HistogramEven(t, b, x, counts, 5, 0.f, 6.f, static_cast<int>(n));
    });
    if (e == 0) {
        e = in_two_phases([=](void* t, size_t& b) {
            return cub::DeviceHistogram::HistogramRange(t, b, x, counts + 4, 4, levels, static_cast<int>(n));
        });
    }
    cudaFree(levels);
    return e;
}

#define TYPE(name, T, N)                                                                                             \
    EXPORT int reduce_##name(const T* x, T* y, std::int64_t* z, int n) { return reduce<T, N>(x, y, z, n); }         \
    EXPORT int scan_##name(const T* x, T* y, std::int64_t* z, int n) { return scan<T, N>(x, y, z, n); }             \
    EXPORT int sort_##name(const T* x, T* y, std::int64_t* z, int n) { return sort<T, N>(x, y, z, n); }             \
    EXPORT int select_##name(const T* x, T* y, std::int64_t* z, int n) { return select<T, N>(x, y, z, n); }         \
    EXPORT int histogram_##name(const T* x, T* y, std::int64_t* z, int n) { return histogram<T, N>(x, y, z, n); }
TYPE(int32, int, int)
#ifdef TKJIT_SIM  // not for nvcc, which takes a minute for each
TYPE(float32, float, std::int64_t)
TYPE(uint8, unsigned char, int)
TYPE(float64, double, unsigned)
#endif
