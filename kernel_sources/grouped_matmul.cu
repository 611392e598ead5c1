// Products of groups of rows of A with a matrix for each group.
#include "grouped_matmul_tile.cuh"

template <typename T, bool TB>
struct Problem {
    tkjit::gl<T, 1, 1> a;
    tkjit::strided<T, 3> b;
    tkjit::gl<int, 1, 1, 1> ends;
    tkjit::gl<T, 1, 1> c;
};
template <typename T, bool TB>
using Launch = GroupLaunch<T, TB>;

template <typename T, bool TB>
__global__ void __launch_bounds__(kThreads) grouped_matmul(const __grid_constant__ Problem<T, TB> g) {
    TKJIT_DYNAMIC_SHARED(T, stages);
    multiply_group<TB>(stages, g);
}
