"""Adds two sparse vectors."""

import numpy as np

from support.applications import clock, numbers

HEADERS = [
    "thrust/device_vector.h",
    "thrust/functional.h",
    "thrust/inner_product.h",
    "thrust/merge.h",
    "thrust/reduce.h",
]


def run(thrust, n):
    indices, values = thrust.device_vector(int), thrust.device_vector(np.float32)

    def sparse(seed):
        places = np.unique(numbers(n, 3 * n, seed))
        return indices(places), values(numbers(len(places), 50, seed).astype(np.float32) / 4)

    (a_index, a_value), (b_index, b_value) = sparse(3), sparse(8)
    clock.start()
    size = a_index.size() + b_index.size()
    index, value = indices(size), values(size)
    thrust.merge_by_key(
        *(a_index.begin(), a_index.end(), b_index.begin(), b_index.end()),
        *(a_value.begin(), b_value.begin(), index.begin(), value.begin()),
    )
    distinct = thrust.inner_product(
        index.begin(), index.end() - 1, index.begin() + 1, 1, thrust.plus(int)(), thrust.not_equal_to(int)()
    )
    sum_index, sum_value = indices(distinct), values(distinct)
    thrust.reduce_by_key(
        *(index.begin(), index.end(), value.begin(), sum_index.begin(), sum_value.begin()),
        *(thrust.equal_to(int)(), thrust.plus(np.float32)()),
    )
    clock.stop()
    return {"index": sum_index, "value": sum_value}
