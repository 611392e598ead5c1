"""Finds the most frequent value."""

from support.applications import clock, numbers

HEADERS = [
    "thrust/device_vector.h",
    "thrust/sort.h",
    "thrust/reduce.h",
    "thrust/extrema.h",
    "thrust/inner_product.h",
    "thrust/functional.h",
    "thrust/iterator/constant_iterator.h",
]


def run(thrust, n):
    vector = thrust.device_vector(int)
    data = vector(numbers(n, 10))
    clock.start()
    thrust.sort(data.begin(), data.end())
    unique = thrust.inner_product(
        data.begin(), data.end() - 1, data.begin() + 1, 0, thrust.plus(int)(), thrust.not_equal_to(int)()
    )
    values, counts = vector(unique + 1), vector(unique + 1)
    ones = thrust.constant_iterator(int)(1)
    thrust.reduce_by_key(data.begin(), data.end(), ones, values.begin(), counts.begin())
    most = thrust.max_element(counts.begin(), counts.end())
    at = most - counts.begin()
    mode, occurs = values[at], counts[at]
    clock.stop()
    return {"values": values, "counts": counts, "mode": mode, "occurs": occurs}
