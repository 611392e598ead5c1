"""Computes the sum and the maximum of numbers."""

from support.applications import clock, numbers

HEADERS = ["thrust/device_vector.h", "thrust/host_vector.h", "thrust/functional.h", "thrust/reduce.h"]


def run(thrust, n):
    data = thrust.device_vector(int)(thrust.host_vector(int)(numbers(n, 10000)))
    clock.start()
    total = thrust.reduce(data.begin(), data.end(), 0, thrust.plus(int)())
    largest = thrust.reduce(data.begin(), data.end(), 0, thrust.maximum(int)())
    clock.stop()
    return {"sum": total, "largest": largest}
