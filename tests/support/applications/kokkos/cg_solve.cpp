#include "program.hpp"

#include <KokkosBlas1_axpby.hpp>
#include <KokkosBlas1_dot.hpp>
#include <KokkosSparse_spmv.hpp>

void run(std::size_t n) {
    const Matrix matrix = matrices::line<Matrix>(static_cast<int>(n));
    Vector exact("exact", n), b("b", n), x("x", n), p("p", n), ap("ap", n), r("r", n);
    for (std::size_t i = 0; i < n; ++i) exact(i) = static_cast<double>(i % 17) / 16;
    const Clock clock;
    KokkosSparse::spmv("N", 1.0, matrix, exact, 0.0, b);
    Kokkos::deep_copy(r, b);
    Kokkos::deep_copy(p, r);
    double r_dot = KokkosBlas::dot(r, r);
    int steps = 0;
    while (std::sqrt(r_dot) > 1e-10 && steps < static_cast<int>(n)) {
        KokkosSparse::spmv("N", 1.0, matrix, p, 0.0, ap);
        const double alpha = r_dot / KokkosBlas::dot(p, ap);
        KokkosBlas::axpy(alpha, p, x);
        KokkosBlas::axpy(-alpha, ap, r);
        const double before = r_dot;
        r_dot = KokkosBlas::dot(r, r);
        KokkosBlas::axpby(1.0, r, r_dot / before, p);
        ++steps;
    }
    KokkosBlas::axpby(1.0, x, -1.0, exact);
    const double error = std::sqrt(KokkosBlas::dot(exact, exact));
    clock.stop();
    print("steps", steps);
    print_view("x", x);
    print("error", error);
}
