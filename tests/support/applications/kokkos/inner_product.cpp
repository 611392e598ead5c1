#include "program.hpp"

#include <KokkosBlas1_dot.hpp>
#include <KokkosBlas2_gemv.hpp>

void run(std::size_t n) {
    const std::size_t half = n / 2;
    Vector y("y", n), product("product", n), x("x", half);
    Kokkos::View<double**> a("a", n, half);
    for (std::size_t i = 0; i < half; ++i) x(i) = static_cast<double>(i % 11) / 3;
    for (std::size_t i = 0; i < n; ++i) y(i) = static_cast<double>(i % 11) / 5;
    for (std::size_t j = 0; j < half; ++j)
        for (std::size_t i = 0; i < n; ++i) a(i, j) = static_cast<double>((i + j * n) % 11) / 7;
    const Clock clock;
    KokkosBlas::gemv("N", 1.0, a, x, 0.0, product);
    const double result = KokkosBlas::dot(y, product);
    clock.stop();
    print_view("product", product);
    print("result", result);
}
