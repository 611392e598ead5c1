"""Computes the inner product <y, A x>."""

import numpy as np

from support.applications import clock
from tkjit import char_ptr

HEADERS = ["Kokkos_Core.hpp", "KokkosBlas1_dot.hpp", "KokkosBlas2_gemv.hpp"]
BOUND = ["Kokkos", "KokkosBlas"]


def run(kk, n):
    y, product = (kk.View("double*")(name, n) for name in ("y", "product"))
    x, a = kk.View("double*")("x", n // 2), kk.View("double**")("a", n, n // 2)
    for view, scale in (x, 3), (y, 5), (a, 7):
        array = np.asarray(view)
        array[:] = np.arange(array.size).reshape(array.shape, order="F") % 11 / scale
    clock.start()
    kk.gemv(char_ptr("N"), 1.0, a, x, 0.0, product)
    result = kk.dot(y, product)
    clock.stop()
    return {"product": product, "result": result}
