#include "program.hpp"

#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

void run(std::size_t n) {
    const std::vector<int> data = numbers(n, 100), more = numbers(n, 1000);
    using Vector = thrust::device_vector<int>;
    Vector ascending(data.begin(), data.end()), descending(ascending), keys(ascending), values(ascending);
    thrust::device_vector<float> floats(more.begin(), more.end());
    for (std::size_t i = 0; i < n; ++i) floats[i] = floats[i] / 8;
    const Clock clock;
    thrust::sort(ascending.begin(), ascending.end());
    thrust::sort(descending.begin(), descending.end(), thrust::greater<int>());
    thrust::stable_sort(floats.begin(), floats.end());
    thrust::sequence(values.begin(), values.end());
    thrust::stable_sort_by_key(keys.begin(), keys.end(), values.begin());
    clock.stop();
    print("ascending", ascending.begin(), ascending.end());
    print("descending", descending.begin(), descending.end());
    print("floats", floats.begin(), floats.end());
    print("keys", keys.begin(), keys.end());
    print("values", values.begin(), values.end());
}
