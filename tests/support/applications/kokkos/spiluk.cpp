#include "factors.hpp"

#include <KokkosBlas1_nrm2.hpp>
#include <KokkosSparse_spmv.hpp>

void run(std::size_t n) {
    const int width = width_of(n);
    const Matrix matrix = matrices::grid<Matrix>(width, width);
    const Clock clock;
    const Factors found = factors(matrix, 1);
    Vector ones("ones", width * width), product("product", width * width), between("between", width * width);
    Kokkos::deep_copy(ones, 1.0);
    KokkosSparse::spmv("N", 1.0, matrix, ones, 0.0, product);
    KokkosSparse::spmv("N", 1.0, found.upper, ones, 0.0, between);
    KokkosSparse::spmv("N", 1.0, found.lower, between, -1.0, product);
    const double difference = KokkosBlas::nrm2(product);
    clock.stop();
    print_view("L", found.lower.values);
    print_view("U", found.upper.values);
    print("difference", difference);
}
