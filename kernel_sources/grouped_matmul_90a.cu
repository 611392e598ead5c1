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

/// Tiles are small if the groups have at most 64 rows on average.
template <class Ring>
__host__ __device__ hopper::TileShape shape_of_groups(size_t m, size_t groups) {
    if (m > hopper::kSide * groups) return {hopper::kRows, Ring::cols};
    return {hopper::kSide, hopper::kNarrow};
}

template <class Ring, class Problem>
struct GroupSchedule {
    static constexpr int depth = hopper::kDepth<typename Ring::dtype>;
    hopper::TileShape shape;
    int tiles_across, steps;
    Groups<Problem> group;

    __device__ explicit GroupSchedule(const Problem& g)
        : shape(shape_of_groups<Ring>(g.a.rows(), g.ends.cols())),
          tiles_across((g.c.cols() + shape.cols - 1) / shape.cols),
          steps((g.a.cols() + depth - 1) / depth),
          group(g, shape.rows, tiles_across) {}

    __device__ bool find(int index, hopper::Work& work) {
        if (!group.find(index)) return false;
        const auto place = hopper::Place::of(index - group.first_tile, group.tiles_down(), tiles_across);
        const int row = group.begin + place.down * shape.rows, last_step = group.is_rest() ? 0 : steps;
        work = {group.number, row, place.across * shape.cols, group.end, 0, last_step, {}};
        return true;
    }
};

template <typename T, bool TB>
struct HopperLaunch : hopper::Launch<Ring<T>> {
    static size_t blocks(size_t m, size_t n, size_t groups) {
        const hopper::TileShape shape = shape_of_groups<Ring<T>>(m, groups);
        // the last tile of each group, and of the rows after the groups, may be partial
        return hopper::Launch<Ring<T>>::blocks_for((m / shape.rows + groups + 1) * ((n + shape.cols - 1) / shape.cols));
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
