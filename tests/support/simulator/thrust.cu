// Thrust's algorithms on device vectors, for tests/sim/test_thrust.py.
#include <thrust/adjacent_difference.h>
#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/count.h>
#include <thrust/device_ptr.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/extrema.h>
#include <thrust/functional.h>
#include <thrust/gather.h>
#include <thrust/host_vector.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/constant_iterator.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/permutation_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/partition.h>
#include <thrust/reduce.h>
#include <thrust/remove.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>
#include <thrust/tuple.h>
#include <thrust/unique.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

struct IsOdd {
    __host__ __device__ bool operator()(int x) const { return x % 2 != 0; }
};
struct Square {
    __host__ __device__ int operator()(int x) const { return x * x; }
};
struct Product {
    template <class Tuple>
    __host__ __device__ int operator()(const Tuple& pair) const {
        return thrust::get<0>(pair) * thrust::get<1>(pair);
    }
};
// Whether the code runs as a kernel.
struct InKernel {
    __host__ __device__ int operator()(int) const { return tkjit::sim::current_block != nullptr; }
};

// Reductions and positions, one number of y each.
EXPORT void reductions(const int* x, int n, int* y) {
    const thrust::device_vector<int> data(x, x + n);
    *y++ = thrust::reduce(data.begin(), data.end());
    *y++ = thrust::reduce(thrust::device, data.begin(), data.end(), -100, thrust::maximum<int>());
    *y++ = thrust::transform_reduce(data.begin(), data.end(), Square(), 1, thrust::plus<int>());
    *y++ = thrust::inner_product(data.begin(), data.end(), data.begin(), 3);
    *y++ = thrust::count(data.begin(), data.end(), 2);
    *y++ = thrust::count_if(data.begin(), data.end(), IsOdd());
    *y++ = thrust::min_element(data.begin(), data.end()) - data.begin();
    *y++ = thrust::minmax_element(data.begin(), data.end()).second - data.begin();
    const auto squares = thrust::make_transform_iterator(data.begin(), Square());
    *y++ = thrust::reduce(squares, squares + n);
    const auto pairs = thrust::make_zip_iterator(thrust::make_tuple(data.begin(), thrust::make_counting_iterator(0)));
    const auto products = thrust::make_transform_iterator(pairs, Product());
    *y++ = thrust::reduce(products, products + n, 0);
    *y++ = thrust::distance(data.begin(), thrust::lower_bound(data.begin(), data.end(), 2));
}

// Rows of n: sums, exclusive sums from 5, squares, differences, sorted values, their indices, in reverse, a gather.
EXPORT void rows(const int* x, int n, int* y) {
    thrust::device_vector<int> data(x, x + n), other(n);
    const thrust::device_ptr<int> out(y);
    thrust::inclusive_scan(data.begin(), data.end(), out);
    thrust::exclusive_scan(thrust::device, x, x + n, y + n, 5);
    thrust::transform(data.begin(), data.end(), out + 2 * n, Square());
    thrust::adjacent_difference(data.begin(), data.end(), out + 3 * n);
    thrust::sequence(other.begin(), other.end());
    thrust::stable_sort_by_key(data.begin(), data.end(), other.begin());
    thrust::copy(data.begin(), data.end(), out + 4 * n);
    thrust::copy(other.begin(), other.end(), y + 5 * n);
    thrust::sort(thrust::make_zip_iterator(data.begin(), other.begin()), thrust::make_zip_iterator(data.end(), other.end()),
                 [](const auto& a, const auto& b) { return b < a; });
    thrust::copy(other.begin(), other.end(), y + 6 * n);
    const thrust::host_vector<int> host(x, x + n);
    thrust::device_vector<int> again = host;
    thrust::fill(again.begin() + n / 2, again.end(), 7);
    thrust::gather(other.begin(), other.end(), again.begin(), out + 7 * n);
}

// Writes the number of items that each algorithm keeps to `counts`, and the items to the rows of `y`.
EXPORT void selections(const int* x, int n, int* counts, int* y) {
    thrust::device_vector<int> data(x, x + n), kept(n), runs(n);
    const auto put = [&](auto end) {
        *counts++ = end - kept.begin();
        thrust::copy(kept.begin(), end, y);
        y += n;
    };
    put(thrust::copy_if(data.begin(), data.end(), kept.begin(), IsOdd()));
    kept = data;
    put(thrust::remove_if(kept.begin(), kept.end(), IsOdd()));
    kept = data;
    put(thrust::unique(kept.begin(), kept.end()));
    kept = data;
    put(thrust::stable_partition(kept.begin(), kept.end(), IsOdd()));
    const auto ends = thrust::reduce_by_key(data.begin(), data.end(), thrust::make_constant_iterator(1), runs.begin(), kept.begin());
    put(ends.second);
}

EXPORT int runs_as_kernel(int device) {
    thrust::device_vector<int> data(1);
    int host = 0;
    if (device) thrust::transform(data.begin(), data.end(), data.begin(), InKernel());
    else thrust::transform(&host, &host + 1, &host, InKernel());
    return device ? data[0] : host;
}
