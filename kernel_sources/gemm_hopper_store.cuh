// How gemm_hopper.cuh stores its results.
#pragma once

#include <tkjit/bulk_copy.cuh>
#include <tkjit/named_barrier.cuh>
#include <tkjit/stmatrix.cuh>
#include <tkjit/tensor_map.cuh>
#include <tkjit/wgmma.cuh>

#include "gemm_hopper_boxes.cuh"
#include "gemm_split.cuh"
#include "pack.cuh"

namespace hopper {

/// A block's share of C: the steps from `first_step` to before `last_step` of the tile at (row, col) of the matrix `number`.
/// The rows from `end_row` on are not part of it.
struct Work {
    int number, row, col, end_row, first_step, last_step;
    Split split;
};

/// Stores a warpgroup's 64 x Cols elements of C without TMA. `element(i, row, col)` is the thread's element `i`.
template <int Cols, class C, class Element>
__device__ void store_elements(const C& c, const Work& work, int first_row, int first_col, const Element& element) {
    using T = typename C::dtype;
    const int n = c.cols(), row = first_row + tkjit::wgmma_row(0), col = first_col + tkjit::wgmma_col(0);
    const size_t number = C::rank == 3 ? work.number : 0;
    T* const first = c.raw_ptr + (number * c.rows() + row) * n + col;
    T* const rows[2] = {first, first + size_t(8) * n};
#pragma unroll
    for (int i = 0; i < Cols / 2; ++i) {
        const int down = i / 2 % 2 * 8, right = i / 4 * 8 + i % 2;
        if (row + down < work.end_row && col + right < n) rows[down / 8][right] = T(element(i, row + down, col + right));
    }
}

/// The same with TMA, by way of two boxes in shared memory. `stores` counts the boxes that the warpgroup has stored.
template <int Cols, class Box, class C, class Element>
__device__ void store_boxes(Box (&boxes)[2], int& stores, const C& c, int number, int first_row, int first_col,
                            const Element& element) {
    using T = typename C::dtype;
    const int consumer = threadIdx.x / kWarpgroup - 1, lane = threadIdx.x % 32;
    const int row = first_row + tkjit::wgmma_row(0), col = first_col + tkjit::wgmma_col(0);
    const bool is_leader = threadIdx.x % kWarpgroup == 0;
#pragma unroll
    for (int box = 0; box < Cols / kSide; ++box, ++stores) {
        if (first_col + box * kSide >= c.cols()) break;
        auto& staged = boxes[stores % 2];
        if (is_leader) tkjit::bulk_store_wait_read<1>();  // the store before the previous one has read its box
        tkjit::named_barrier_sync(1 + consumer, kWarpgroup);
#pragma unroll
        for (int i = 0; i < kSide / 2; i += 8) {  // 16 columns
            uint32_t pairs[4];
#pragma unroll
            for (int pair = 0; pair < 4; ++pair) {
                const int at = box * kSide / 2 + i + 2 * pair, down = pair % 2 * 8, right = at / 4 * 8;
                const auto of = [&](int i) { return element(at + i, row + down, col + right + i); };
                pairs[pair] = pack(T(), of(0), of(1));
            }
            const int to_row = threadIdx.x % kWarpgroup / 32 * 16 + lane % 16, to_col = 2 * i + lane / 16 * 8;
            tkjit::stmatrix_x4(reinterpret_cast<char*>(staged) + tkjit::place_in_tile<Boxes<T>>(to_row, to_col), pairs);
        }
        tkjit::fence_async_proxy();
        tkjit::named_barrier_sync(1 + consumer, kWarpgroup);
        if (!is_leader) continue;
        if constexpr (C::rank == 3) tkjit::tensor_store(c, number, first_row, first_col + box * kSide, staged);
        else tkjit::tensor_store(c, first_row, first_col + box * kSide, staged);
        tkjit::bulk_store_commit();
    }
}

}  // namespace hopper
