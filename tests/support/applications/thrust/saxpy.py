"""Computes y = a x + y, with two transformations and a temporary vector, and with a single function object."""

import numpy as np

from support.applications import clock, numbers

HEADERS = ["thrust/device_vector.h", "thrust/fill.h", "thrust/transform.h", "thrust/functional.h"]
SOURCE = """
namespace thrust {
struct saxpy_functor {
    const float a;
    explicit saxpy_functor(float a) : a(a) {}
    float operator()(const float& x, const float& y) const { return a * x + y; }
};
}  // namespace thrust
"""


def run(thrust, n):
    vector = thrust.device_vector(np.float32)
    x = vector(numbers(n, 1000).astype(np.float32))
    y = vector(numbers(n, 1000, seed=5).astype(np.float32))
    slow, fast = vector(y), vector(y)

    clock.start()
    temporary = vector(x.size())
    thrust.fill(temporary.begin(), temporary.end(), np.float32(2))
    multiplies, plus = thrust.multiplies(np.float32)(), thrust.plus(np.float32)()
    thrust.transform(x.begin(), x.end(), temporary.begin(), temporary.begin(), multiplies)
    thrust.transform(temporary.begin(), temporary.end(), slow.begin(), slow.begin(), plus)

    thrust.transform(x.begin(), x.end(), fast.begin(), fast.begin(), thrust.saxpy_functor(2.0))
    clock.stop()
    return {"slow": slow, "fast": fast}
