#include "../application.hpp"

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

int main(int, char** argv) {
    const std::size_t n = std::strtoul(argv[1], nullptr, 10);
    const Vector a = sorted_numbers(n, 1), b = sorted_numbers(n, 9);
    Vector result(a.size() + b.size());
    auto end = thrust::merge(a.begin(), a.end(), b.begin(), b.end(), result.begin());
    print("merge", result.begin(), end);
    end = thrust::set_union(a.begin(), a.end(), b.begin(), b.end(), result.begin());
    print("union", result.begin(), end);
    end = thrust::set_intersection(a.begin(), a.end(), b.begin(), b.end(), result.begin());
    print("intersection", result.begin(), end);
    end = thrust::set_difference(a.begin(), a.end(), b.begin(), b.end(), result.begin());
    print("difference", result.begin(), end);
    end = thrust::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(), result.begin());
    print("symmetric", result.begin(), end);
}
