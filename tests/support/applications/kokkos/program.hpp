// The common parts of the C++ programs for Kokkos.
#pragma once

#include "../application.hpp"
#include "matrices.hpp"

#include <KokkosSparse_CrsMatrix.hpp>
#include <Kokkos_Core.hpp>

using Space = Kokkos::DefaultExecutionSpace;
using Vector = Kokkos::View<double*>;
using Matrix = KokkosSparse::CrsMatrix<double, int, Space, void, int>;

template <class View>
void print_view(const char* name, const View& view) {
    print(name, view.data(), view.data() + view.extent(0));
}
inline int width_of(std::size_t n) {
    const int width = static_cast<int>(std::sqrt(static_cast<double>(n)));
    return width < 3 ? 3 : width;
}

int main(int, char** argv) {
    Kokkos::initialize();
    run_each(argv + 1);
    Kokkos::finalize();
}
