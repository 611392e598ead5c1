// mma, ldmatrix, stmatrix and cp.async, each alone, and in a GEMM. All but the launchers also compiles with nvcc.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <tkjit/cp_async.cuh>
#include <tkjit/ldmatrix.cuh>
#include <tkjit/mma.cuh>
#include <tkjit/registers.cuh>
#include <tkjit/shared_memory.cuh>
#include <tkjit/stmatrix.cuh>

// D (16 x 8) = A (16 x 16) B (16 x 8) + C, with fragments gathered by hand as in the PTX ISA's figures.
template <class T>
__global__ void one_mma(const T* a, const T* b, const float* c, float* d) {
    const int group = threadIdx.x / 4, pair = 2 * (threadIdx.x % 4);
    const auto pack = [](T low, T high) {
        T both[2] = {low, high};
        uint32_t bits;
        memcpy(&bits, both, 4);
        return bits;
    };
    const auto a_at = [&](int row, int column) { return pack(a[row * 16 + column], a[row * 16 + column + 1]); };
    const auto b_at = [&](int row) { return pack(b[row * 8 + group], b[(row + 1) * 8 + group]); };
    const uint32_t a_fragment[4] = {a_at(group, pair), a_at(group + 8, pair), a_at(group, pair + 8),
                                    a_at(group + 8, pair + 8)};
    const uint32_t b_fragment[2] = {b_at(pair), b_at(pair + 8)};
    float sum[4] = {c[group * 8 + pair], c[group * 8 + pair + 1], c[(group + 8) * 8 + pair],
                    c[(group + 8) * 8 + pair + 1]};
    tkjit::mma_m16n8k16<T>(sum, a_fragment, b_fragment, sum);
    for (int i = 0; i < 4; i++) d[(group + i / 2 * 8) * 8 + pair + i % 2] = sum[i];
}

// x has four contiguous 8 x 8 matrices. Each lane's result is 14 words, from x1, x2 and x4, plain and transposed.
__global__ void load_matrices(const uint16_t* x, uint32_t* result) {
    __shared__ __align__(16) uint16_t tile[4 * 64];
    const int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) tile[i] = x[i];
    __syncwarp();
    uint32_t* words = result + 14 * lane;
    uint32_t one[1], two[2], four[4];
    tkjit::ldmatrix_x1(one, tile + lane % 8 * 8);
    words[0] = one[0];
    tkjit::ldmatrix_x2(two, tile + lane % 16 * 8);
    for (int i = 0; i < 2; i++) words[1 + i] = two[i];
    tkjit::ldmatrix_x4(four, tile + lane * 8);
    for (int i = 0; i < 4; i++) words[3 + i] = four[i];
    tkjit::ldmatrix_x1_trans(one, tile + lane % 8 * 8);
    words[7] = one[0];
    tkjit::ldmatrix_x2_trans(two, tile + lane % 16 * 8);
    for (int i = 0; i < 2; i++) words[8 + i] = two[i];
    tkjit::ldmatrix_x4_trans(four, tile + lane * 8);
    for (int i = 0; i < 4; i++) words[10 + i] = four[i];
}

// seen[0]: before any wait; [1]: after waiting for the first of two groups; [2]: after the second, which copies 6 bytes.
__global__ void copies(const uint16_t* x, uint16_t* seen) {
    __shared__ __align__(16) uint16_t tile[2][32][8];
    const int lane = threadIdx.x;
    const auto record = [&](int row) {
        for (int i = 0; i < 16; i++) seen[(row * 32 + lane) * 16 + i] = tile[i / 8][lane][i % 8];
    };
    for (int i = 0; i < 16; i++) tile[i / 8][lane][i % 8] = 0xffff;
    tkjit::cp_async_16(tile[0][lane], x + 16 * lane);
    tkjit::cp_async_commit();
    tkjit::cp_async_16_zero_fill(tile[1][lane], x + 16 * lane + 8, 6);
    tkjit::cp_async_commit();
    record(0);
    tkjit::cp_async_wait<1>();
    record(1);
    tkjit::cp_async_wait<0>();
    record(2);
}

// C = A B^T with A (m x k) and B (n x k): 64 x 64 tiles, 4 warps, two stages of cp.async. Extents are multiples of 64.
template <class T>
__global__ void __launch_bounds__(128) gemm(const T* a, const T* b, float* c, int n, int k) {
    constexpr int stride = 40;  // 32 columns and 8 of padding, so that the rows of a matrix are in different banks
    struct Stage {
        T a[64][stride], b[64][stride];
    };
    TKJIT_DYNAMIC_SHARED(Stage, stages);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const T* a_rows = a + static_cast<size_t>(blockIdx.y) * 64 * k;
    const T* b_rows = b + static_cast<size_t>(blockIdx.x) * 64 * k;
    const auto load = [&](int step) {
        Stage& stage = stages[step % 2];
        for (int i = threadIdx.x; i < 256; i += 128) {
            const int row = i / 4, column = i % 4 * 8;
            tkjit::cp_async_16(&stage.a[row][column], a_rows + static_cast<size_t>(row) * k + step * 32 + column);
            tkjit::cp_async_16(&stage.b[row][column], b_rows + static_cast<size_t>(row) * k + step * 32 + column);
        }
    };
    float sums[8][4] = {};
    load(0);
    tkjit::cp_async_commit();
    for (int step = 0; step < k / 32; step++) {
        if (step + 1 < k / 32) load(step + 1);
        tkjit::cp_async_commit();
        tkjit::cp_async_wait<1>();
        __syncthreads();
        const Stage& stage = stages[step % 2];
        for (int inner = 0; inner < 32; inner += 16) {
            uint32_t a_fragment[4];
            tkjit::ldmatrix_x4(a_fragment, &stage.a[warp * 16 + lane % 16][inner + lane / 16 * 8]);
            for (int tile = 0; tile < 8; tile += 2) {
                uint32_t two[4];  // two tiles of eight columns: (tile, k 0-7), (tile, k 8-15), then the next tile
                tkjit::ldmatrix_x4(two, &stage.b[tile * 8 + lane / 16 * 8 + lane % 8][inner + lane / 8 % 2 * 8]);
                const uint32_t first[2] = {two[0], two[1]}, second[2] = {two[2], two[3]};
                tkjit::mma_m16n8k16<T>(sums[tile], a_fragment, first, sums[tile]);
                tkjit::mma_m16n8k16<T>(sums[tile + 1], a_fragment, second, sums[tile + 1]);
            }
        }
        __syncthreads();
    }
    for (int tile = 0; tile < 8; tile++) {
        for (int i = 0; i < 4; i++) {
            const size_t row = blockIdx.y * 64 + warp * 16 + lane / 4 + i / 2 * 8;
            c[row * n + blockIdx.x * 64 + tile * 8 + lane % 4 * 2 + i % 2] = sums[tile][i];
        }
    }
}

__global__ void mma_in_half_a_warp(float* d) {
    if (threadIdx.x >= 16) return;
    __syncwarp(0xffff);
    const uint32_t a[4] = {}, b[2] = {};
    float sum[4] = {};
    tkjit::mma_m16n8k16<__half>(sum, a, b, sum);  // MARK mma of 16 lanes
    d[threadIdx.x] = sum[0];
}

__global__ void misaligned_copy(const uint16_t* x) {
    __shared__ __align__(16) uint16_t tile[16];
    tkjit::cp_async_16(tile, x + 1);  // MARK misaligned copy
    tkjit::cp_async_wait_all();
}

// The first eight lanes store rows 0 to 7; stmatrix_x1 ignores the addresses of the other lanes.
__global__ void misaligned_store(int misaligned_lane) {
    __shared__ __align__(16) uint16_t tile[72];
    const uint32_t one[1] = {};
    const int lane = threadIdx.x;
    tkjit::stmatrix_x1(tile + lane % 8 * 8 + (lane == misaligned_lane), one);  // MARK misaligned store
}

// Register counts are compile-time constants; the tests compile an invalid one.
#ifndef REGISTERS
#define REGISTERS 240
#endif
__global__ void __launch_bounds__(128, 1) move_registers() {
    tkjit::decrease_registers<24>();
    tkjit::increase_registers<REGISTERS>();
}

template __global__ void gemm<__half>(const __half*, const __half*, float*, int, int);
template __global__ void gemm<__nv_bfloat16>(const __nv_bfloat16*, const __nv_bfloat16*, float*, int, int);

#ifdef TKJIT_SIM
#define EXPORT extern "C" __attribute__((visibility("default")))
#define LIST(...) __VA_ARGS__
#define LAUNCHER(name, kernel, parameters, ...)                                                             \
    EXPORT const char* run_##name(const unsigned* dims, size_t dynamic_shared_bytes, parameters) {          \
        return tkjit::sim::launch(kernel, dim3(dims[0], dims[1], dims[2]), dim3(dims[3], dims[4], dims[5]), \
                                  dynamic_shared_bytes, __VA_ARGS__);                                       \
    }
LAUNCHER(one_mma_half, one_mma<__half>, LIST(__half* a, __half* b, float* c, float* d), a, b, c, d)
LAUNCHER(one_mma_bfloat16, one_mma<__nv_bfloat16>, LIST(__nv_bfloat16* a, __nv_bfloat16* b, float* c, float* d), a, b,
         c, d)
LAUNCHER(load_matrices, load_matrices, LIST(uint16_t* x, uint32_t* result), x, result)
LAUNCHER(copies, copies, LIST(uint16_t* x, uint16_t* seen), x, seen)
LAUNCHER(gemm_half, gemm<__half>, LIST(__half* a, __half* b, float* c, int n, int k), a, b, c, n, k)
LAUNCHER(gemm_bfloat16, gemm<__nv_bfloat16>, LIST(__nv_bfloat16* a, __nv_bfloat16* b, float* c, int n, int k), a, b, c,
         n, k)
LAUNCHER(mma_in_half_a_warp, mma_in_half_a_warp, LIST(float* d), d)
LAUNCHER(misaligned_store, misaligned_store, LIST(int misaligned_lane), misaligned_lane)
LAUNCHER(misaligned_copy, misaligned_copy, LIST(uint16_t* x), x)
EXPORT void set_workers(int workers) { tkjit::sim::set_workers(workers); }
#endif
