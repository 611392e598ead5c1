"""Counts how often each value occurs, in a dense histogram and in a sparse one."""

from support.applications import clock, numbers

HEADERS = [
    "thrust/device_vector.h",
    "thrust/host_vector.h",
    "thrust/sort.h",
    "thrust/reduce.h",
    "thrust/inner_product.h",
    "thrust/binary_search.h",
    "thrust/adjacent_difference.h",
    "thrust/functional.h",
    "thrust/iterator/constant_iterator.h",
    "thrust/iterator/counting_iterator.h",
]


def run(thrust, n):
    vector = thrust.device_vector(int)
    data = vector(numbers(n, 10) + numbers(n, 10, seed=77) // 2)
    clock.start()
    thrust.sort(data.begin(), data.end())

    dense = vector()
    dense.resize(data.back() + 1)
    values = thrust.counting_iterator(int)(0)
    thrust.upper_bound(data.begin(), data.end(), values, values + dense.size(), dense.begin())
    thrust.adjacent_difference(dense.begin(), dense.end(), dense.begin())

    bins = thrust.inner_product(
        data.begin(), data.end() - 1, data.begin() + 1, 1, thrust.plus(int)(), thrust.not_equal_to(int)()
    )
    sparse, counts = vector(bins), vector(bins)
    ones = thrust.constant_iterator(int)(1)
    thrust.reduce_by_key(data.begin(), data.end(), ones, sparse.begin(), counts.begin())
    clock.stop()
    return {"dense": dense, "values": sparse, "counts": counts}
