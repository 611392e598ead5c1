#include "program.hpp"

#include <thrust/adjacent_difference.h>
#include <thrust/binary_search.h>
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/host_vector.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/constant_iterator.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>

void run(std::size_t n) {
    std::vector<int> input = numbers(n, 10), more = numbers(n, 10, 77);
    for (std::size_t i = 0; i < n; ++i) input[i] += more[i] / 2;
    thrust::device_vector<int> data(input.begin(), input.end());
    const Clock clock;
    thrust::sort(data.begin(), data.end());

    thrust::device_vector<int> dense;
    dense.resize(data.back() + 1);
    thrust::counting_iterator<int> values(0);
    thrust::upper_bound(data.begin(), data.end(), values, values + dense.size(), dense.begin());
    thrust::adjacent_difference(dense.begin(), dense.end(), dense.begin());

    const int bins = thrust::inner_product(data.begin(), data.end() - 1, data.begin() + 1, 1, thrust::plus<int>(),
                                           thrust::not_equal_to<int>());
    thrust::device_vector<int> sparse(bins), counts(bins);
    thrust::reduce_by_key(data.begin(), data.end(), thrust::constant_iterator<int>(1), sparse.begin(), counts.begin());
    clock.stop();
    print("dense", dense.begin(), dense.end());
    print("values", sparse.begin(), sparse.end());
    print("counts", counts.begin(), counts.end());
}
