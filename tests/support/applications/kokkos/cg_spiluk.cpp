#include "factors.hpp"

#include <KokkosBlas1_axpby.hpp>
#include <KokkosBlas1_dot.hpp>
#include <KokkosSparse_spmv.hpp>
#include <KokkosSparse_sptrsv.hpp>

namespace solver = KokkosSparse::Experimental;
using Handle = KokkosKernels::Experimental::KokkosKernelsHandle<int, int, double, Space, Space, Space>;

static void prepare(Handle& handle, const Matrix& part, bool is_lower) {
    handle.create_sptrsv_handle(solver::SPTRSVAlgorithm::SEQLVLSCHD_TP1, part.numRows(), is_lower);
    solver::sptrsv_symbolic(&handle, part.graph.row_map, part.graph.entries);
}
static void solve(Handle& handle, const Matrix& part, const Vector& given, const Vector& result) {
    solver::sptrsv_solve(&handle, part.graph.row_map, part.graph.entries, part.values, given, result);
}

void run(std::size_t n) {
    const int width = width_of(n), count = width * width;
    const Matrix matrix = matrices::grid<Matrix>(width, width);
    const Clock clock;
    const Factors found = factors(matrix, 1);
    Handle lower, upper;
    prepare(lower, found.lower, true);
    prepare(upper, found.upper, false);
    Vector exact("exact", count), b("b", count), x("x", count), p("p", count), ap("ap", count), r("r", count);
    Vector z("z", count), between("between", count);
    for (int i = 0; i < count; ++i) exact(i) = static_cast<double>(i % 17) / 16;
    KokkosSparse::spmv("N", 1.0, matrix, exact, 0.0, b);
    const auto precondition = [&] {
        solve(lower, found.lower, r, between);
        solve(upper, found.upper, between, z);
    };
    Kokkos::deep_copy(r, b);
    precondition();
    Kokkos::deep_copy(p, z);
    double rz = KokkosBlas::dot(r, z);
    int steps = 0;
    while (std::sqrt(KokkosBlas::dot(r, r)) > 1e-10 && steps < count) {
        KokkosSparse::spmv("N", 1.0, matrix, p, 0.0, ap);
        const double alpha = rz / KokkosBlas::dot(p, ap);
        KokkosBlas::axpy(alpha, p, x);
        KokkosBlas::axpy(-alpha, ap, r);
        precondition();
        const double before = rz;
        rz = KokkosBlas::dot(r, z);
        KokkosBlas::axpby(1.0, z, rz / before, p);
        ++steps;
    }
    lower.destroy_sptrsv_handle();
    upper.destroy_sptrsv_handle();
    KokkosBlas::axpby(1.0, x, -1.0, exact);
    const double error = std::sqrt(KokkosBlas::dot(exact, exact));
    clock.stop();
    print("steps", steps);
    print_view("x", x);
    print("error", error);
}
