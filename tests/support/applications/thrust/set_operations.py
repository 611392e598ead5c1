"""Computes union, intersection, difference, symmetric difference and merge of two sorted ranges."""

import numpy as np

from support.applications import clock, numbers

HEADERS = ["thrust/device_vector.h", "thrust/merge.h", "thrust/set_operations.h"]


def run(thrust, n):
    vector = thrust.device_vector(int)
    a, b = (vector(np.unique(numbers(n, 2 * n, seed))) for seed in (1, 9))
    clock.start()
    results, ends = {}, {}
    for name, function in {
        "merge": thrust.merge,
        "union": thrust.set_union,
        "intersection": thrust.set_intersection,
        "difference": thrust.set_difference,
        "symmetric": thrust.set_symmetric_difference,
    }.items():
        results[name] = vector(a.size() + b.size())
        ends[name] = function(a.begin(), a.end(), b.begin(), b.end(), results[name].begin())
    clock.stop()
    counts = {name: end - results[name].begin() for name, end in ends.items()}
    return {name: np.asarray(result)[: counts[name]] for name, result in results.items()}
