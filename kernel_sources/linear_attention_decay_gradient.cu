// The gradient of g, the logarithm of the decay of causal linear attention. The state S[t] = exp(g) S[t - 1] + k[t] v[t].T
// has the derivative Z[t] = exp(g) (Z[t - 1] + S[t - 1]), so the gradient is
//
//   sum over t of scale * <q[t] grad_o[t].T, Z[t]> + <grad_final_state, Z[last]>
//
// for the inner product <A, B> of matrices, the sum of A[i, j] B[i, j]. Each block computes a share, for 64 x 64 elements of
// the states. In a chunk, element i has Z[i] = exp(g)^(i + 1) (Z + (i + 1) S) + sum over j < i of (i - j) exp(g)^(i - j)
// k[j] v[j].T, where S and Z are those before the chunk.
//
// The gradient is also the sum over t of (t + 1) (q[t] . grad_q[t] - k[t] . grad_k[t]), plus a term for the last state. But
// these terms cancel each other: with gradients in bfloat16, 8192 elements and a decay of 0.9, the error is five times as
// large as the result.
#include <tkjit/reduce.cuh>

#include "linear_attention.cuh"

constexpr float kUnit = 1.f / kRows;  // a factor of ages and of Z, so that no factor of an element exceeds 1

/// A chunk's rows, of 64 columns each.
template <typename T>
struct Chunk {
    T q[kRows * kStride], k[kRows * kStride], v[kRows * kStride], grad_o[kRows * kStride];
};

/// Adds the products of 16 rows, which begin at `a`, and all rows of a chunk.
template <class T>
__device__ void add_scores(float (&scores)[kRows / 2], const T* a, const T* b) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int col = 0; col < kCols; col += kDepth) {
        uint32_t rows[4], columns[4];
        tkjit::ldmatrix_x4(rows, a + lane % 16 * kStride + col + lane / 16 * 8);
#pragma unroll
        for (int row = 0; row < kRows; row += 16) {
            tkjit::ldmatrix_x4(columns, b + (row + lane / 16 * 8 + lane % 8) * kStride + col + lane / 8 % 2 * 8);
            add_product<T>(scores + row / 2, rows, columns);
        }
    }
}

/// For 16 columns of `left`, adds the sum of exp(g)^age(i) left[i] right[i].T over a chunk's rows to `sums`, and the sum of
/// these terms times age(i) * kUnit to `aged`.
template <class T, class Age>
__device__ void add_outer_products(float (&sums)[kCols / 2], float (&aged)[kCols / 2], const T* left, const T* right,
                                   const float* decays, Age age) {
    const int lane = threadIdx.x % 32;
#pragma unroll 1  // there are too few registers for the operands of several steps
    for (int first = 0; first < kRows; first += kDepth) {
        uint32_t a[4], of_aged[4];
        float weights[4], ages[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int steps = age(first + lane % 4 * 2 + i / 2 * 8 + i % 2);
            weights[i] = decays[steps];
            ages[i] = weights[i] * (steps * kUnit);
        }
        load_transposed(a, left + first * kStride, kStride);
#pragma unroll
        for (int i = 0; i < 4; ++i) of_aged[i] = a[i];
        scale_rows<T>(a, weights);
        scale_rows<T>(of_aged, ages);
#pragma unroll
        for (int col = 0; col < kCols; col += 16) {
            uint32_t b[4];
            tkjit::ldmatrix_x4_trans(b, right + (first + lane % 16) * kStride + col + lane / 16 * 8);
            add_product<T>(sums + col / 2, a, b);
            add_product<T>(aged + col / 2, of_aged, b);
        }
    }
}

template <typename T, int D>
__global__ void __launch_bounds__(kThreads) linear_attention_decay_gradient(const __grid_constant__ Globals g) {
    TKJIT_DYNAMIC_SHARED(Chunk<T>, chunks);  // one is in use while the next arrives
    constexpr unsigned parts = D / kCols;
    const unsigned number = blockIdx.x / (parts * parts), part = blockIdx.x % (parts * parts);
    const unsigned key_col = part / parts * kCols, value_col = part % parts * kCols;
    const int length = g.q.rows(), warp_row = threadIdx.x / 32 * 16, lane = threadIdx.x % 32;
    const size_t first = size_t(number) * length * D, state_at = size_t(number) * D * D + key_col * D + value_col;
    const float scale = g.scale.value_or(rsqrtf(D));
    __shared__ float decays[kRows + 1];  // the powers of exp(g)
    const auto row_of = [&](int i) { return warp_row + lane / 4 + 8 * (i / 2 % 2); };
    const auto col_of = [&](int i) { return i / 4 * 8 + lane % 4 * 2 + i % 2; };
    const auto copy = [&](Chunk<T>& to, int start) {
        const int rows = min(kRows, length - start);
        copy_chunk<kCols, D>(to.q, g.q.raw_ptr + first + key_col, start, rows);
        copy_chunk<kCols, D>(to.k, g.k.raw_ptr + first + key_col, start, rows);
        copy_chunk<kCols, D>(to.v, g.v.raw_ptr + first + value_col, start, rows);
        copy_chunk<kCols, D>(to.grad_o, g.grad_o.raw_ptr + first + value_col, start, rows);
    };

    for (int i = threadIdx.x; i <= kRows; i += kThreads) decays[i] = exp2_of(i * (g.g[number % g.q.depth()] * kLog2E));
    float total = 0.f, state[kCols / 2] = {}, slope[kCols / 2] = {};  // S, and Z * kUnit
    if (g.initial_state) {
#pragma unroll
        for (int i = 0; i < kCols / 2; ++i) state[i] = g.initial_state[state_at + row_of(i) * D + col_of(i)];
    }
    if (length > 0) copy(chunks[0], 0);
    for (int start = 0, stage = 0; start < length; start += kRows, stage = 1 - stage) {
        tkjit::cp_async_wait_all();
        __syncthreads();
        if (start + kRows < length) copy(chunks[1 - stage], start + kRows);
        const Chunk<T>& chunk = chunks[stage];
        const int rows = min(kRows, length - start);

        float keys[kRows / 2] = {}, values[kRows / 2] = {};
        add_scores(keys, chunk.q + warp_row * kStride, chunk.k);
        add_scores(values, chunk.grad_o + warp_row * kStride, chunk.v);
#pragma unroll
        for (int i = 0; i < kRows / 2; ++i) {
            const int distance = row_of(i) - col_of(i);
            if (distance > 0) total += keys[i] * values[i] * (distance * kUnit * decays[distance]);
        }
        float results[kCols / 2] = {}, aged_results[kCols / 2] = {};
        add_outer_products(results, aged_results, chunk.q + warp_row, chunk.grad_o, decays, [](int i) { return i + 1; });
#pragma unroll
        for (int i = 0; i < kCols / 2; ++i) total += results[i] * slope[i] + aged_results[i] * state[i];

        const float decay = decays[rows];
#pragma unroll
        for (int i = 0; i < kCols / 2; ++i) {
            slope[i] = decay * (slope[i] + rows * kUnit * state[i]);
            state[i] *= decay;
        }
        add_outer_products(state, slope, chunk.k + warp_row, chunk.v, decays, [&](int i) { return max(0, rows - 1 - i); });
    }
    total *= scale;
#pragma unroll
    for (int i = 0; i < kCols / 2; ++i)
        total += slope[i] * g.grad_final_state[state_at + row_of(i) * D + col_of(i)];
    total = tkjit::block_reduce<tkjit::Sum>(total) / kUnit;
    if (threadIdx.x == 0) g.grad_g[blockIdx.x] = total;
}
