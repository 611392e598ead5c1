#include "program.hpp"

#include <KokkosGraph_Distance1Color.hpp>
#include <KokkosGraph_Distance2Color.hpp>

void run(std::size_t n) {
    const int width = width_of(n), points = width * width;
    const auto graph = matrices::neighbours<Matrix>(width, width).graph;
    const Clock clock;
    KokkosKernels::Experimental::KokkosKernelsHandle<int, int, double, Space, Space, Space> handle;
    handle.create_graph_coloring_handle();
    KokkosGraph::Experimental::graph_color(&handle, points, points, graph.row_map, graph.entries);
    const auto colors = handle.get_graph_coloring_handle()->get_vertex_colors();
    const int count = static_cast<int>(handle.get_graph_coloring_handle()->get_num_colors());
    handle.destroy_graph_coloring_handle();
    handle.create_distance2_graph_coloring_handle();
    KokkosGraph::Experimental::graph_color_distance2(&handle, points, graph.row_map, graph.entries);
    const auto colors2 = handle.get_distance2_graph_coloring_handle()->get_vertex_colors();
    const int count2 = static_cast<int>(handle.get_distance2_graph_coloring_handle()->get_num_colors());
    handle.destroy_distance2_graph_coloring_handle();
    clock.stop();
    print_view("colors", colors);
    print("count", count);
    print_view("colors2", colors2);
    print("count2", count2);
}
