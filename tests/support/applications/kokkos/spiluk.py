"""An incomplete factorisation of a sparse matrix, with fill of level 1."""

from support.applications import clock
from support.applications.kokkos import HANDLE, MATRIX, NAMESPACES
from tkjit import char_ptr, ptr

HEADERS = [
    "Kokkos_Core.hpp",
    "KokkosSparse_CrsMatrix.hpp",
    "KokkosSparse_spmv.hpp",
    "KokkosSparse_spiluk.hpp",
    "KokkosBlas1_nrm2.hpp",
]
BOUND = [*NAMESPACES, "KokkosSparse::Experimental", "KokkosKernels::Experimental"]


def factors(kk, matrix, level):
    """Compute the incomplete factors L and U of a matrix."""
    rows, entries, values = matrix.graph.row_map, matrix.graph.entries, matrix.values
    count, room = matrix.numRows(), 6 * matrix.nnz() * (level + 1)
    handle = kk.KokkosKernelsHandle(*HANDLE)()
    handle.create_spiluk_handle(kk.Experimental.SPILUKAlgorithm.SEQLVLSCHD_RP, count, room, room)
    spiluk = handle.get_spiluk_handle()
    parts = {}
    for name, nonzeros in ("L", spiluk.get_nnzL()), ("U", spiluk.get_nnzU()):
        parts[name] = (
            kk.View("int*")("rows", count + 1),
            kk.View("int*")("entries", nonzeros),
            kk.View("double*")("values", nonzeros),
        )
    (l_rows, l_entries, l_values), (u_rows, u_entries, u_values) = parts["L"], parts["U"]
    kk.spiluk_symbolic(ptr(handle), level, rows, entries, l_rows, l_entries, u_rows, u_entries)
    for size, *views in (spiluk.get_nnzL(), l_entries, l_values), (spiluk.get_nnzU(), u_entries, u_values):
        for view in views:
            kk.resize(view, size)
    kk.spiluk_numeric(
        *(ptr(handle), level, rows, entries, values),
        *(l_rows, l_entries, l_values, u_rows, u_entries, u_values),
    )
    handle.destroy_spiluk_handle()
    matrix_type = kk.CrsMatrix(*MATRIX)
    return tuple(
        matrix_type(name, count, count, entries.extent(0), values, rows, entries)
        for name, (rows, entries, values) in parts.items()
    )


def run(kk, n):
    width = max(3, int(n**0.5))
    matrix = kk.grid(width, width, template_args=[kk.CrsMatrix(*MATRIX)])
    clock.start()
    lower, upper = factors(kk, matrix, 1)
    ones, product, between = (kk.View("double*")(name, width * width) for name in ("ones", "product", "between"))
    kk.deep_copy(ones, 1.0)
    kk.spmv(char_ptr("N"), 1.0, matrix, ones, 0.0, product)
    kk.spmv(char_ptr("N"), 1.0, upper, ones, 0.0, between)
    kk.spmv(char_ptr("N"), 1.0, lower, between, -1.0, product)
    difference = kk.nrm2(product)
    clock.stop()
    return {"L": lower.values, "U": upper.values, "difference": difference}
