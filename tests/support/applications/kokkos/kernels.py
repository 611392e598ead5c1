"""Calls every kernel in Kokkos Kernels' wiki once, with NumPy's results to compare."""

from __future__ import annotations

import numpy as np

import tkjit
from support.applications.kokkos import HANDLE, MATRICES, MATRIX, OPTIONS
from support.applications.kokkos.spiluk import factors
from tkjit import char_ptr, ptr

VECTORS = "abs axpby dot fill iamax mult nrm1 nrm2 nrm2_squared nrm2w nrminf reciprocal scal sum update".split()
SPARSE = "CrsMatrix spmv trsv spadd spgemm sptrsv spiluk gauss_seidel".split()
HEADERS = {
    "dense": [
        "Kokkos_Core.hpp",
        *(f"KokkosBlas1_{name}.hpp" for name in VECTORS),
        *("KokkosBlas2_gemv.hpp", "KokkosBlas3_gemm.hpp", "KokkosBlas3_trmm.hpp", "KokkosBlas3_trsm.hpp"),
        *("KokkosBlas_gesv.hpp", "KokkosBlas_trtri.hpp"),
    ],
    "sparse": [
        "Kokkos_Core.hpp",
        *(f"KokkosSparse_{name}.hpp" for name in SPARSE),
        *("KokkosGraph_Distance1Color.hpp", "KokkosGraph_Distance2Color.hpp"),
    ],
}
NAMESPACES = {
    "dense": ["KokkosBlas", "Kokkos"],  # abs and fill are in both, and the first one wins
    "sparse": [
        *("Kokkos", "KokkosSparse", "KokkosSparse::Experimental", "KokkosKernels::Experimental"),
        *("KokkosGraph::Experimental", "matrices"),
    ],
}
N = 6


def results(kind):
    """Yield (name, result, expected) for each kernel of a kind, in a process where Kokkos has not been started."""
    source = MATRICES if kind == "sparse" else ""
    library = tkjit.bind(*HEADERS[kind], namespaces=NAMESPACES[kind], source=source, **OPTIONS)
    return {"dense": dense, "sparse": sparse}[kind](library)


def dense(kk):
    """Yield the results of kernels on vectors and dense matrices."""
    xs, ys, ws = np.linspace(-2, 3, N), np.linspace(1, 2, N), np.full(N, 2.0)
    full = np.arange(N * N, dtype=float).reshape(N, N) % 7 + N * np.eye(N)
    lower = np.tril(full)

    def vector(values):
        view = kk.View("double*")("v", len(values))
        np.asarray(view)[:] = values
        return view

    def matrix(values):
        view = kk.View("double**")("m", *values.shape)
        np.asarray(view)[:] = values
        return view

    x, y, w = vector(xs), vector(ys), vector(ws)

    def into(function, *args):
        result = vector(ys)
        function(*(result if argument is ... else argument for argument in args))
        return np.array(result)

    yield "abs", into(kk.abs, ..., x), np.abs(xs)
    yield "axpby", into(kk.axpby, 2.0, x, 3.0, ...), 2 * xs + 3 * ys
    yield "axpy", into(kk.axpy, 2.0, x, ...), 2 * xs + ys
    yield "dot", kk.dot(x, y), xs @ ys
    yield "fill", into(kk.fill, ..., 7.0), np.full(N, 7.0)
    yield "iamax", kk.iamax(x), np.abs(xs).argmax() + 1
    yield "mult", into(kk.mult, 2.0, ..., 3.0, x, y), 2 * ys + 3 * xs * ys
    yield "nrm1", kk.nrm1(x), np.abs(xs).sum()
    yield "nrm2", kk.nrm2(x), np.linalg.norm(xs)
    yield "nrm2_squared", kk.nrm2_squared(x), xs @ xs
    yield "nrm2w", kk.nrm2w(x, w), np.linalg.norm(xs / ws)
    yield "nrminf", kk.nrminf(x), np.abs(xs).max()
    yield "reciprocal", into(kk.reciprocal, ..., y), 1 / ys
    yield "scal", into(kk.scal, ..., 3.0, x), 3 * xs
    yield "sum", kk.sum(x), xs.sum()
    yield "update", into(kk.update, 2.0, x, 3.0, w, 4.0, ...), 2 * xs + 3 * ws + 4 * ys
    yield "gemv", into(kk.gemv, char_ptr("T"), 2.0, matrix(full), x, 3.0, ...), 2 * full.T @ xs + 3 * ys

    product = matrix(full)
    kk.gemm(char_ptr("N"), char_ptr("T"), 1.0, matrix(full), matrix(lower), 2.0, product)
    yield "gemm", np.array(product), full @ lower.T + 2 * full
    sides = char_ptr("L"), char_ptr("L"), char_ptr("N"), char_ptr("N")
    product = matrix(full)
    kk.trmm(*sides, 2.0, matrix(lower), product)
    yield "trmm", np.array(product), 2 * lower @ full
    product = matrix(full)
    kk.trsm(*sides, 2.0, matrix(lower), product)
    yield "trsm", np.array(product), np.linalg.solve(lower, 2 * full)
    left = "Kokkos::LayoutLeft"  # the layout that LAPACK requires
    factored, solution = (kk.View("double**", left)("m", N, columns) for columns in (N, 1))
    np.asarray(factored)[:], np.asarray(solution)[:] = full, ys[:, None]
    kk.gesv(factored, solution, kk.View("int*", left)("pivots", N))
    yield "gesv", np.array(solution)[:, 0], np.linalg.solve(full, ys)
    inverse = matrix(lower)
    kk.trtri(char_ptr("L"), char_ptr("N"), inverse)
    yield "trtri", np.tril(np.array(inverse)), np.linalg.inv(lower)


def sparse(kk):
    """Yield the results of kernels on sparse matrices and graphs."""
    matrix_type, width = kk.CrsMatrix(*MATRIX), 5
    count = width * width
    a, line = kk.grid(width, width, template_args=[matrix_type]), kk.line(count, template_args=[matrix_type])
    full, line_full = _full(a, count), _full(line, count)
    xs = np.linspace(-2, 3, count)

    def vector(values):
        view = kk.View("double*")("v", len(values))
        np.asarray(view)[:] = values
        return view

    def handle():
        return kk.KokkosKernelsHandle(*HANDLE)()

    x, y = vector(xs), vector(np.zeros(count))
    rows, entries, values = a.graph.row_map, a.graph.entries, a.values
    kk.spmv(char_ptr("N"), 2.0, a, x, 0.0, y)
    yield "spmv", np.array(y), 2 * full @ xs

    structure = kk.View("int*")("structure", 2)
    structure[0] = structure[1] = width
    boundary = vector(np.zeros(count))
    kk.spmv_struct(char_ptr("N"), 1, structure, 1.0, a, x, 0.0, boundary)
    yield "spmv_struct", np.array(boundary), full @ xs

    addition, total = handle(), matrix_type()
    addition.create_spadd_handle(True)
    kk.spadd_symbolic(ptr(addition), a, line, total)
    yield "spadd_symbolic", total.numRows(), count
    kk.spadd_numeric(ptr(addition), 2.0, a, 3.0, line, total)
    yield "spadd_numeric", _full(total, count), 2 * full + 3 * line_full

    multiplication, product = handle(), matrix_type()
    multiplication.create_spgemm_handle(kk.SPGEMMAlgorithm.SPGEMM_KK)
    kk.spgemm_symbolic(multiplication, a, False, line, False, product)
    yield "spgemm_symbolic", product.numRows(), count
    kk.spgemm_numeric(multiplication, a, False, line, False, product)
    yield "spgemm_numeric", _full(product, count), full @ line_full

    triangle = kk.lower(a)
    triangle_full = np.tril(full)
    solution = kk.View("double**")("solution", count, 1)
    right = kk.View("double**")("right", count, 1)
    np.asarray(right)[:, 0] = xs
    kk.trsv(char_ptr("L"), char_ptr("N"), char_ptr("N"), triangle, right, solution)
    yield "trsv", np.array(solution)[:, 0], np.linalg.solve(triangle_full, xs)

    solver = handle()
    solver.create_sptrsv_handle(kk.SPTRSVAlgorithm.SEQLVLSCHD_TP1, count, True)
    kk.sptrsv_symbolic(ptr(solver), triangle.graph.row_map, triangle.graph.entries)
    yield "sptrsv_symbolic", solver.get_sptrsv_handle().is_symbolic_complete(), True
    kk.sptrsv_solve(ptr(solver), triangle.graph.row_map, triangle.graph.entries, triangle.values, x, y)
    yield "sptrsv_solve", np.array(y), np.linalg.solve(triangle_full, xs)

    left, upper = factors(kk, a, count)  # with fill of level `count`, the factorisation is exact
    yield "spiluk_symbolic", left.numRows(), count
    yield "spiluk_numeric", _full(left, count) @ _full(upper, count), full

    seidel = handle()
    seidel.create_gs_handle(kk.GSAlgorithm.GS_DEFAULT)
    kk.gauss_seidel_symbolic(ptr(seidel), count, count, rows, entries, True)
    yield "gauss_seidel_symbolic", seidel.get_point_gs_handle().is_symbolic_called(), True
    kk.gauss_seidel_numeric(ptr(seidel), count, count, rows, entries, values, True)
    yield "gauss_seidel_numeric", seidel.get_point_gs_handle().is_numeric_called(), True
    b = vector(full @ xs)
    for name in "forward_sweep_gauss_seidel_apply", "symmetric_gauss_seidel_apply":
        result = vector(np.zeros(count))
        getattr(kk, name)(ptr(seidel), count, count, rows, entries, values, result, b, True, True, 1.0, 200)
        yield name, np.round(np.array(result), 6), np.round(xs, 6)

    graph = kk.neighbours(width, width, template_args=[matrix_type]).graph
    linked = _pattern(graph.row_map, graph.entries, count)
    coloring = handle()
    coloring.create_graph_coloring_handle()
    kk.graph_color(ptr(coloring), count, count, graph.row_map, graph.entries)
    yield "graph_color", _clashes(coloring.get_graph_coloring_handle().get_vertex_colors(), linked), 0
    coloring.create_distance2_graph_coloring_handle()
    kk.graph_color_distance2(ptr(coloring), count, graph.row_map, graph.entries)
    result = coloring.get_distance2_graph_coloring_handle().get_vertex_colors()
    yield "graph_color_distance2", _clashes(result, linked | (linked @ linked > 0)), 0


def _full(matrix, columns):
    """Convert a sparse matrix to a dense one."""
    rows, entries, values = (np.array(array) for array in (matrix.graph.row_map, matrix.graph.entries, matrix.values))
    full = np.zeros((len(rows) - 1, columns))
    for row in range(len(rows) - 1):
        for at in range(rows[row], rows[row + 1]):
            full[row, entries[at]] += values[at]
    return full


def _pattern(row_map, entries, count):
    rows, columns = np.array(row_map), np.array(entries)
    pattern = np.zeros((count, count), dtype=bool)
    for row in range(count):
        pattern[row, columns[rows[row] : rows[row + 1]]] = True
    return pattern


def _clashes(colors, linked):
    """Count linked points with equal colours, and points without a colour."""
    colors = np.array(colors)
    same = (colors[:, None] == colors[None, :]) & ~np.eye(len(colors), dtype=bool)
    return int((same & linked).sum()) + int((colors == 0).sum())
