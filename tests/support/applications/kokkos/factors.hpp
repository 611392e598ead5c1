// Computes the incomplete factors L and U of a matrix.
#pragma once

#include "program.hpp"

#include <KokkosSparse_spiluk.hpp>

struct Factors {
    Matrix lower, upper;
};

inline Factors factors(const Matrix& matrix, int level) {
    namespace solver = KokkosSparse::Experimental;
    using Indices = Kokkos::View<int*>;
    const auto rows = matrix.graph.row_map;
    const auto entries = matrix.graph.entries;
    const int count = matrix.numRows(), room = 6 * matrix.nnz() * (level + 1);
    KokkosKernels::Experimental::KokkosKernelsHandle<int, int, double, Space, Space, Space> handle;
    handle.create_spiluk_handle(solver::SPILUKAlgorithm::SEQLVLSCHD_RP, count, room, room);
    auto* const found = handle.get_spiluk_handle();
    Indices l_rows("rows", count + 1), l_entries("entries", found->get_nnzL());
    Indices u_rows("rows", count + 1), u_entries("entries", found->get_nnzU());
    Vector l_values("values", found->get_nnzL()), u_values("values", found->get_nnzU());
    solver::spiluk_symbolic(&handle, level, rows, entries, l_rows, l_entries, u_rows, u_entries);
    Kokkos::resize(l_entries, found->get_nnzL());
    Kokkos::resize(l_values, found->get_nnzL());
    Kokkos::resize(u_entries, found->get_nnzU());
    Kokkos::resize(u_values, found->get_nnzU());
    solver::spiluk_numeric(&handle, level, rows, entries, matrix.values, l_rows, l_entries, l_values, u_rows, u_entries,
                           u_values);
    const int l_count = static_cast<int>(l_entries.extent(0)), u_count = static_cast<int>(u_entries.extent(0));
    handle.destroy_spiluk_handle();
    return {Matrix("L", count, count, l_count, l_values, l_rows, l_entries),
            Matrix("U", count, count, u_count, u_values, u_rows, u_entries)};
}
