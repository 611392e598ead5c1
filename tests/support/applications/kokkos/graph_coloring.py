"""Colours the points of a grid so that neighbours differ, and then also neighbours of neighbours."""

from support.applications import clock
from support.applications.kokkos import HANDLE, MATRIX, NAMESPACES
from tkjit import ptr

HEADERS = [
    "Kokkos_Core.hpp",
    "KokkosSparse_CrsMatrix.hpp",
    "KokkosGraph_Distance1Color.hpp",
    "KokkosGraph_Distance2Color.hpp",
]
BOUND = [*NAMESPACES[:2], "matrices", "KokkosGraph::Experimental", "KokkosKernels::Experimental"]


def run(kk, n):
    width = max(3, int(n**0.5))
    graph = kk.neighbours(width, width, template_args=[kk.CrsMatrix(*MATRIX)]).graph
    points = width * width

    clock.start()
    handle = kk.KokkosKernelsHandle(*HANDLE)()
    handle.create_graph_coloring_handle()
    kk.graph_color(ptr(handle), points, points, graph.row_map, graph.entries)
    coloring = handle.get_graph_coloring_handle()
    distance1 = {"colors": coloring.get_vertex_colors(), "count": coloring.get_num_colors()}
    handle.destroy_graph_coloring_handle()

    handle.create_distance2_graph_coloring_handle()
    kk.graph_color_distance2(ptr(handle), points, graph.row_map, graph.entries)
    coloring = handle.get_distance2_graph_coloring_handle()
    distance2 = {"colors2": coloring.get_vertex_colors(), "count2": coloring.get_num_colors()}
    handle.destroy_distance2_graph_coloring_handle()
    clock.stop()
    return distance1 | distance2
