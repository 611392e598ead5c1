"""Sorts keys in both directions, floats, and keys with values."""

import numpy as np

from support.applications import clock, numbers

HEADERS = ["thrust/device_vector.h", "thrust/sort.h", "thrust/functional.h", "thrust/sequence.h"]


def run(thrust, n):
    vector = thrust.device_vector(int)
    data = numbers(n, 100)
    ascending, descending, keys, values = (vector(data) for _ in range(4))
    floats = thrust.device_vector(np.float32)(numbers(n, 1000).astype(np.float32) / 8)
    clock.start()
    thrust.sort(ascending.begin(), ascending.end())
    thrust.sort(descending.begin(), descending.end(), thrust.greater(int)())
    thrust.stable_sort(floats.begin(), floats.end())
    thrust.sequence(values.begin(), values.end())
    thrust.stable_sort_by_key(keys.begin(), keys.end(), values.begin())
    clock.stop()
    return {"ascending": ascending, "descending": descending, "floats": floats, "keys": keys, "values": values}
