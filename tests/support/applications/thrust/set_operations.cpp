#include "program.hpp"

#include <algorithm>
#include <thrust/device_vector.h>
#include <thrust/merge.h>
#include <thrust/set_operations.h>

using Vector = thrust::device_vector<int>;

static Vector sorted_numbers(std::size_t n, int seed) {
    std::vector<int> found = numbers(n, static_cast<int>(2 * n), seed);
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return Vector(found.begin(), found.end());
}

void run(std::size_t n) {
    const Vector a = sorted_numbers(n, 1), b = sorted_numbers(n, 9);
    const std::size_t size = a.size() + b.size();
    const Clock clock;
    Vector merged(size), both(size), common(size), difference(size), symmetric(size);
    const auto merged_end = thrust::merge(a.begin(), a.end(), b.begin(), b.end(), merged.begin());
    const auto both_end = thrust::set_union(a.begin(), a.end(), b.begin(), b.end(), both.begin());
    const auto common_end = thrust::set_intersection(a.begin(), a.end(), b.begin(), b.end(), common.begin());
    const auto difference_end = thrust::set_difference(a.begin(), a.end(), b.begin(), b.end(), difference.begin());
    const auto symmetric_end =
        thrust::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(), symmetric.begin());
    clock.stop();
    print("merge", merged.begin(), merged_end);
    print("union", both.begin(), both_end);
    print("intersection", common.begin(), common_end);
    print("difference", difference.begin(), difference_end);
    print("symmetric", symmetric.begin(), symmetric_end);
}
