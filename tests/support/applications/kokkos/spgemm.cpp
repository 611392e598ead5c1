#include "program.hpp"

#include <KokkosSparse_spgemm.hpp>

void run(std::size_t n) {
    const Matrix a = matrices::line<Matrix>(static_cast<int>(n));
    const Clock clock;
    Matrix product;
    KokkosKernels::Experimental::KokkosKernelsHandle<int, int, double, Space, Space, Space> handle;
    handle.set_team_work_size(16);
    handle.set_dynamic_scheduling(true);
    std::string name = "SPGEMM_KK_MEMORY";
    handle.create_spgemm_handle(KokkosSparse::StringToSPGEMMAlgorithm(name));
    KokkosSparse::spgemm_symbolic(handle, a, false, a, false, product);
    KokkosSparse::spgemm_numeric(handle, a, false, a, false, product);
    handle.destroy_spgemm_handle();
    clock.stop();
    print_view("rows", product.graph.row_map);
    print_view("columns", product.graph.entries);
    print_view("values", product.values);
}
