#include "program.hpp"

#include <thrust/device_vector.h>
#include <thrust/extrema.h>
#include <thrust/functional.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/constant_iterator.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>

void run(std::size_t n) {
    const std::vector<int> input = numbers(n, 10);
    thrust::device_vector<int> data(input.begin(), input.end());
    const Clock clock;
    thrust::sort(data.begin(), data.end());
    const int unique = thrust::inner_product(data.begin(), data.end() - 1, data.begin() + 1, 0, thrust::plus<int>(),
                                             thrust::not_equal_to<int>());
    thrust::device_vector<int> values(unique + 1), counts(unique + 1);
    thrust::reduce_by_key(data.begin(), data.end(), thrust::constant_iterator<int>(1), values.begin(), counts.begin());
    const auto at = thrust::max_element(counts.begin(), counts.end()) - counts.begin();
    clock.stop();
    print("values", values.begin(), values.end());
    print("counts", counts.begin(), counts.end());
    print("mode", static_cast<int>(values[at]));
    print("occurs", static_cast<int>(counts[at]));
}
