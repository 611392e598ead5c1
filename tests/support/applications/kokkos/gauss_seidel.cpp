#include "program.hpp"

#include <KokkosBlas1_nrm2.hpp>
#include <KokkosSparse_gauss_seidel.hpp>
#include <KokkosSparse_spmv.hpp>

namespace solver = KokkosSparse::Experimental;

void run(std::size_t n) {
    const int width = width_of(n), count = width * width;
    const Matrix matrix = matrices::grid<Matrix>(width, width);
    const auto rows = matrix.graph.row_map;
    const auto entries = matrix.graph.entries;
    const auto values = matrix.values;
    Vector x("x", count), b("b", count), rest("rest", count);
    for (int i = 0; i < count; ++i) b(i) = static_cast<double>(i % 13) / 4;

    const Clock clock;
    KokkosKernels::Experimental::KokkosKernelsHandle<int, int, double, Space, Space, Space> handle;
    handle.create_gs_handle(KokkosSparse::GS_DEFAULT);
    solver::gauss_seidel_symbolic(&handle, count, count, rows, entries, false);
    solver::gauss_seidel_numeric(&handle, count, count, rows, entries, values, false);
    bool first = true;
    int steps = 0;
    double norm = 1, begin = KokkosBlas::nrm2(b);
    while (norm > 1e-3 && steps < 1000) {
        solver::forward_sweep_gauss_seidel_apply(&handle, count, count, rows, entries, values, x, b, first, first, 1.0, 1);
        first = false;
        Kokkos::deep_copy(rest, b);
        KokkosSparse::spmv("N", 1.0, matrix, x, -1.0, rest);
        norm = KokkosBlas::nrm2(rest) / begin;
        ++steps;
    }
    handle.destroy_gs_handle();
    clock.stop();
    print("steps", steps);
    print_view("x", x);
    print("norm", norm);
}
