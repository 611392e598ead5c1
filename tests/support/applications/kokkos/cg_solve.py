"""Conjugate gradients."""

import math

import numpy as np

from support.applications import clock
from support.applications.kokkos import MATRIX, NAMESPACES
from tkjit import char_ptr

HEADERS = [
    "Kokkos_Core.hpp",
    "KokkosSparse_CrsMatrix.hpp",
    "KokkosSparse_spmv.hpp",
    "KokkosBlas1_axpby.hpp",
    "KokkosBlas1_dot.hpp",
]
BOUND = NAMESPACES


def run(kk, n):
    vector = kk.View("double*")
    matrix = kk.line(n, template_args=[kk.CrsMatrix(*MATRIX)])
    exact, b, x, p, ap, r = (vector(name, n) for name in ("exact", "b", "x", "p", "ap", "r"))
    np.asarray(exact)[:] = np.arange(n) % 17 / 16
    clock.start()
    multiply, no_transpose = kk.spmv, char_ptr("N")
    multiply(no_transpose, 1.0, matrix, exact, 0.0, b)

    kk.deep_copy(r, b)
    kk.deep_copy(p, r)
    r_dot = kk.dot(r, r)
    steps = 0
    while math.sqrt(r_dot) > 1e-10 and steps < n:
        multiply(no_transpose, 1.0, matrix, p, 0.0, ap)
        alpha = r_dot / kk.dot(p, ap)
        kk.axpy(alpha, p, x)
        kk.axpy(-alpha, ap, r)
        before, r_dot = r_dot, kk.dot(r, r)
        kk.axpby(1.0, r, r_dot / before, p)
        steps += 1
    kk.axpby(1.0, x, -1.0, exact)
    error = math.sqrt(kk.dot(exact, exact))
    clock.stop()
    return {"steps": steps, "x": x, "error": error}
