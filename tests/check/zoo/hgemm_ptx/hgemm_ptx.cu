// C = A * B^T in float16, in the style of hand-written kernels, with macros of inline PTX for cp.async, ldmatrix and
// mma.sync. Four warps compute a tile of 32 x 32 elements, 16 x 16 per warp, from two stages of 16 columns.
#include <cuda_fp16.h>

#define COPY(to, from, bytes) \
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(bytes))
#define COMMIT() asm volatile("cp.async.commit_group;\n" ::)
#define WAIT(groups) asm volatile("cp.async.wait_group %0;\n" ::"n"(groups))
#define LOAD_MATRICES(r0, r1, r2, r3, address)                                            \
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"     \
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)                                 \
                 : "r"(address))
#define MULTIPLY(d, a, b0, b1)                                                                                       \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "         \
                 "{%0,%1,%2,%3};\n"                                                                                  \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                    \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))

constexpr int kTile = 32, kStep = 16, kStages = 2;

// The first 64 threads copy A's tile and the others B's, eight halves each.
__device__ void fetch(half (&tile)[kTile][kStep], const half* matrix, int rows, int cols, int first_row, int first_col) {
    const int row = threadIdx.x % 64 / 2, col = threadIdx.x % 2 * 8;
    const bool inside = first_row + row < rows && first_col + col < cols;
    const half* source = inside ? matrix + (first_row + row) * cols + first_col + col : matrix;
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(&tile[row][col]));
    COPY(address, source, inside ? 16 : 0);
}

__global__ void hgemm_ptx(const half* a, const half* b, half* c, int M, int N, int K) {
    __shared__ __align__(16) half tile_a[kStages][kTile][kStep];
    __shared__ __align__(16) half tile_b[kStages][kTile][kStep];
    const int first_row = blockIdx.y * kTile, first_col = blockIdx.x * kTile;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = warp / 2 * 16, col = warp % 2 * 16;
    const int steps = (K + kStep - 1) / kStep;
    float sum[2][4] = {};

    const auto fetch_step = [&](int step) {
        if (step < steps && threadIdx.x < 64) {
            fetch(tile_a[step % kStages], a, M, K, first_row, step * kStep);
        } else if (step < steps) {
            fetch(tile_b[step % kStages], b, N, K, first_col, step * kStep);
        }
        COMMIT();
    };
    fetch_step(0);
    for (int step = 0; step < steps; ++step) {
        const int stage = step % kStages;
        fetch_step(step + 1);
        WAIT(1);
        __syncthreads();
        unsigned left[4], right[4];
        const int place = lane % 16, half_of_k = lane / 16 * 8;
        const unsigned from_a = __cvta_generic_to_shared(&tile_a[stage][row + place][half_of_k]);
        const unsigned from_b = __cvta_generic_to_shared(&tile_b[stage][col + place][half_of_k]);
        LOAD_MATRICES(left[0], left[1], left[2], left[3], from_a);
        LOAD_MATRICES(right[0], right[1], right[2], right[3], from_b);
        MULTIPLY(sum[0], left, right[0], right[2]);
        MULTIPLY(sum[1], left, right[1], right[3]);
        __syncthreads();  // the stage may be refilled
    }
    for (int i = 0; i < 8; ++i) {
        const int m = first_row + row + lane / 4 + i % 4 / 2 * 8;
        const int n = first_col + col + i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (m < M && n < N) c[m * N + n] = __float2half(sum[i / 4][i % 4]);
    }
}
