"""Conjugate gradients, preconditioned with an incomplete factorisation."""

import math

import numpy as np

from support.applications import clock
from support.applications.kokkos import HANDLE, MATRIX, NAMESPACES
from support.applications.kokkos.spiluk import factors
from tkjit import char_ptr, ptr

HEADERS = [
    "Kokkos_Core.hpp",
    "KokkosSparse_CrsMatrix.hpp",
    "KokkosSparse_spmv.hpp",
    "KokkosSparse_spiluk.hpp",
    "KokkosSparse_sptrsv.hpp",
    "KokkosBlas1_axpby.hpp",
    "KokkosBlas1_dot.hpp",
]
BOUND = [*NAMESPACES, "KokkosSparse::Experimental", "KokkosKernels::Experimental"]


def run(kk, n):
    width = max(3, int(n**0.5))
    count = width * width
    matrix = kk.grid(width, width, template_args=[kk.CrsMatrix(*MATRIX)])
    clock.start()
    solvers = []
    for part, is_lower in zip(factors(kk, matrix, 1), (True, False), strict=True):
        handle = kk.KokkosKernelsHandle(*HANDLE)()
        handle.create_sptrsv_handle(kk.Experimental.SPTRSVAlgorithm.SEQLVLSCHD_TP1, count, is_lower)
        kk.sptrsv_symbolic(ptr(handle), part.graph.row_map, part.graph.entries)
        solvers.append((handle, part))

    exact, b, x, p, ap, r, z, between = (
        kk.View("double*")(name, count) for name in ("exact", "b", "x", "p", "ap", "r", "z", "between")
    )
    np.asarray(exact)[:] = np.arange(count) % 17 / 16
    kk.spmv(char_ptr("N"), 1.0, matrix, exact, 0.0, b)

    def precondition():
        for (handle, part), argument, result in zip(solvers, (r, between), (between, z), strict=True):
            kk.sptrsv_solve(ptr(handle), part.graph.row_map, part.graph.entries, part.values, argument, result)

    kk.deep_copy(r, b)
    precondition()
    kk.deep_copy(p, z)
    rz, steps = kk.dot(r, z), 0
    while math.sqrt(kk.dot(r, r)) > 1e-10 and steps < count:
        kk.spmv(char_ptr("N"), 1.0, matrix, p, 0.0, ap)
        alpha = rz / kk.dot(p, ap)
        kk.axpy(alpha, p, x)
        kk.axpy(-alpha, ap, r)
        precondition()
        before, rz = rz, kk.dot(r, z)
        kk.axpby(1.0, z, rz / before, p)
        steps += 1
    for handle, _ in solvers:
        handle.destroy_sptrsv_handle()
    kk.axpby(1.0, x, -1.0, exact)
    error = math.sqrt(kk.dot(exact, exact))
    clock.stop()
    return {"steps": steps, "x": x, "error": error}
