"""The Gauss-Seidel method."""

import numpy as np

from support.applications import clock
from support.applications.kokkos import HANDLE, MATRIX, NAMESPACES
from tkjit import char_ptr, ptr

HEADERS = [
    "Kokkos_Core.hpp",
    "KokkosSparse_CrsMatrix.hpp",
    "KokkosSparse_spmv.hpp",
    "KokkosSparse_gauss_seidel.hpp",
    "KokkosBlas1_nrm2.hpp",
]
BOUND = [*NAMESPACES, "KokkosSparse::Experimental", "KokkosKernels::Experimental"]


def run(kk, n):
    width = max(3, int(n**0.5))
    matrix = kk.grid(width, width, template_args=[kk.CrsMatrix(*MATRIX)])
    rows, entries, values = matrix.graph.row_map, matrix.graph.entries, matrix.values
    count = width * width
    x, b, residual = (kk.View("double*")(name, count) for name in ("x", "b", "rest"))
    np.asarray(b)[:] = np.arange(count) % 13 / 4

    clock.start()
    handle = kk.KokkosKernelsHandle(*HANDLE)()
    handle.create_gs_handle(kk.GSAlgorithm.GS_DEFAULT)
    kk.gauss_seidel_symbolic(ptr(handle), count, count, rows, entries, False)
    kk.gauss_seidel_numeric(ptr(handle), count, count, rows, entries, values, False)
    first, steps, norm, begin = True, 0, 1.0, kk.nrm2(b)
    while norm > 1e-3 and steps < 1000:
        kk.forward_sweep_gauss_seidel_apply(
            *(ptr(handle), count, count, rows, entries, values, x, b, first, first, 1.0, 1)
        )
        first = False
        kk.deep_copy(residual, b)
        kk.spmv(char_ptr("N"), 1.0, matrix, x, -1.0, residual)
        norm = kk.nrm2(residual) / begin
        steps += 1
    handle.destroy_gs_handle()
    clock.stop()
    return {"steps": steps, "x": x, "norm": norm}
