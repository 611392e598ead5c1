"""The product of sparse matrices, in two phases."""

from support.applications import clock
from support.applications.kokkos import HANDLE, MATRIX, NAMESPACES

HEADERS = ["Kokkos_Core.hpp", "KokkosSparse_CrsMatrix.hpp", "KokkosSparse_spgemm.hpp"]
BOUND = [*NAMESPACES[:2], "matrices", "KokkosKernels::Experimental"]


def run(kk, n):
    matrix_type = kk.CrsMatrix(*MATRIX)
    a = kk.line(n, template_args=[matrix_type])
    clock.start()
    product = matrix_type()
    handle = kk.KokkosKernelsHandle(*HANDLE)()
    handle.set_team_work_size(16)
    handle.set_dynamic_scheduling(True)
    handle.create_spgemm_handle(kk.StringToSPGEMMAlgorithm(kk.cpp("std::string")("SPGEMM_KK_MEMORY")))
    kk.spgemm_symbolic(handle, a, False, a, False, product)
    kk.spgemm_numeric(handle, a, False, a, False, product)
    handle.destroy_spgemm_handle()
    clock.stop()
    return {"rows": product.graph.row_map, "columns": product.graph.entries, "values": product.values}
