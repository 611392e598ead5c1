#include "program.hpp"

#include <algorithm>
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/inner_product.h>
#include <thrust/merge.h>
#include <thrust/reduce.h>

using Indices = thrust::device_vector<int>;
using Values = thrust::device_vector<float>;

struct Sparse {
    Indices index;
    Values value;
    Sparse(std::size_t n, int seed) {
        std::vector<int> places = numbers(n, static_cast<int>(3 * n), seed);
        std::sort(places.begin(), places.end());
        places.erase(std::unique(places.begin(), places.end()), places.end());
        std::vector<float> found;
        for (const int number : numbers(places.size(), 50, seed)) found.push_back(static_cast<float>(number) / 4);
        index = Indices(places.begin(), places.end());
        value = Values(found.begin(), found.end());
    }
};

void run(std::size_t n) {
    const Sparse a(n, 3), b(n, 8);
    const Clock clock;
    Indices index(a.index.size() + b.index.size());
    Values value(index.size());
    thrust::merge_by_key(a.index.begin(), a.index.end(), b.index.begin(), b.index.end(), a.value.begin(), b.value.begin(),
                         index.begin(), value.begin());
    const int distinct = thrust::inner_product(index.begin(), index.end() - 1, index.begin() + 1, 1, thrust::plus<int>(),
                                               thrust::not_equal_to<int>());
    Indices sum_index(distinct);
    Values sum_value(distinct);
    thrust::reduce_by_key(index.begin(), index.end(), value.begin(), sum_index.begin(), sum_value.begin(),
                          thrust::equal_to<int>(), thrust::plus<float>());
    clock.stop();
    print("index", sum_index.begin(), sum_index.end());
    print("value", sum_value.begin(), sum_value.end());
}
