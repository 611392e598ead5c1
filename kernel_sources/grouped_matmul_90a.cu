// Products of groups of rows of A with a matrix for each group, for Hopper: gemm_hopper.cuh. float32 uses the code of
// gemm_tile.cuh.
#include "gemm_hopper.cuh"
#include "grouped_matmul_tile.cuh"

template <typename T>
using Ring = hopper::Ring<T, TILE_N, STAGES>;  // chosen by `tkjit tune grouped_matmul`

template <typename T, bool TB>
struct Problem {
    static constexpr bool a_is_transposed = false, b_is_transposed = TB;
    template <class Layout, class Boxes>
    using Matrix = std::conditional_t<hopper::multiplies<T>, Boxes, Layout>;
    Matrix<tkjit::gl<T, 1, 1>, hopper::Boxes<T>> a;
    Matrix<tkjit::strided<T, 3>, hopper::StridedBoxes<T, 3, TB>> b;
    tkjit::gl<int, 1, 1, 1> ends;
    Matrix<tkjit::gl<T, 1, 1>, hopper::Boxes<T>> c;
};

/// Tiles have 64 rows if the groups have at most as many on average.
__host__ __device__ inline int rows_of_tile(size_t m, size_t groups) { return m > hopper::kSide * groups ? 128 : 64; }

template <class Ring, class Problem>
struct GroupSchedule {
    static constexpr int cols = Ring::cols, depth = hopper::kDepth<typename Ring::dtype>;
    int rows_of_tile, tiles_across, steps;
    Groups<Problem> group;

    __device__ explicit GroupSchedule(const Problem& g)
        : rows_of_tile(::rows_of_tile(g.a.rows(), g.ends.cols())),
          tiles_across((g.c.cols() + cols - 1) / cols),
          steps((g.a.cols() + depth - 1) / depth),
          group(g, rows_of_tile, tiles_across) {}

    __device__ bool find(int index, hopper::Work& work) {
        if (!group.find(index)) return false;
        const auto place = hopper::Place::of(index - group.first_tile, group.tiles_down(), tiles_across);
        const int row = group.begin + place.down * rows_of_tile, last_step = group.is_rest() ? 0 : steps;
        work = {group.number, row, place.across * cols, group.end, 0, last_step, {}};
        return true;
    }
};

template <typename T, bool TB>
struct HopperLaunch : hopper::Launch<Ring<T>> {
    static size_t blocks(size_t m, size_t n, size_t groups) {
        return hopper::Launch<Ring<T>>::blocks(m + groups * rows_of_tile(m, groups), n, 1);
    }
};
template <typename T, bool TB>
using Launch = std::conditional_t<hopper::multiplies<T>, HopperLaunch<T, TB>, GroupLaunch<T, TB>>;

template <typename T, bool TB>
__global__ void __launch_bounds__((Launch<T, TB>::threads), hopper::multiplies<T> ? 1 : 2)
    grouped_matmul(const __grid_constant__ Problem<T, TB> g) {
    if constexpr (hopper::multiplies<T>) {
        TKJIT_DYNAMIC_SHARED(Ring<T>, ring);
        hopper::multiply(*ring, g, GroupSchedule<Ring<T>, Problem<T, TB>>(g), [](float sum, int, int, int) { return sum; });
    } else {
        TKJIT_DYNAMIC_SHARED(T, stages);
        multiply_group<TB>(stages, g);
    }
}
