// One tile with the wrappers: d[64, WIDTH] = a[64, K] @ b, where K elements are 128 bytes. ELEMENT and SUM are the types;
// COLUMNS is whether b is (K, N) instead of (N, K), and A_COLUMNS whether a is (K, M) instead of (M, K). Elements outside of
// the matrices are 0.
#include <cuda_fp8.h>
#include <tkjit/bulk_copy.cuh>
#include <tkjit/mbarrier.cuh>
#include <tkjit/tensor_map.cuh>
#include <tkjit/wgmma.cuh>

constexpr int K = 128 / sizeof(ELEMENT), BOX = COLUMNS ? 64 : WIDTH;

struct Globals {
    tkjit::tiled<ELEMENT, 64, A_COLUMNS ? 64 : K> a;  // K is 64 if A_COLUMNS
    tkjit::tiled<ELEMENT, COLUMNS ? K : WIDTH, COLUMNS ? 64 : K> b;
    tkjit::tiled<SUM, 64, 32, 128> d;
};
struct Shared {
    alignas(1024) ELEMENT a[64 * K];
    alignas(1024) ELEMENT b[COLUMNS ? (WIDTH + 63) / 64 : 1][COLUMNS ? K * 64 : WIDTH * K];
    alignas(1024) SUM d[WIDTH / 32][64 * 32];
    uint64_t loaded;
};

__global__ void __launch_bounds__(128) multiply(const __grid_constant__ Globals g) {
    TKJIT_DYNAMIC_SHARED(Shared, shared);
    if (threadIdx.x == 0) {
        tkjit::mbarrier_init(&shared->loaded, 1);
        tkjit::fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        tkjit::prefetch_tensor_map(g.a);
        tkjit::mbarrier_arrive_expect_bytes(&shared->loaded, sizeof shared->a + sizeof shared->b);
        tkjit::tensor_load(shared->a, g.a, 0, 0, &shared->loaded);
        for (int n = 0; n < WIDTH; n += BOX)
            tkjit::tensor_load(shared->b[n / BOX], g.b, COLUMNS ? 0 : n, COLUMNS ? n : 0, &shared->loaded);
    }
    tkjit::mbarrier_wait(&shared->loaded, 0);
    SUM sum[WIDTH / 2];
    for (SUM& one : sum) one = 7;  // which the first product replaces
    const auto a = A_COLUMNS ? tkjit::wgmma_columns(shared->a, sizeof shared->a) : tkjit::wgmma_rows(shared->a);
#if COLUMNS
    const auto b = tkjit::wgmma_columns(shared->b, sizeof shared->b[0]);
#else
    const auto b = tkjit::wgmma_rows(shared->b);
#endif
    tkjit::wgmma_fence(sum);
#pragma unroll
    for (int k = 0; k < K / tkjit::wgmma_depth<ELEMENT>; ++k)
        tkjit::wgmma<WIDTH, ELEMENT, COLUMNS, A_COLUMNS>(sum, a.advanced(k), b.advanced(k), k > 0);
    tkjit::wgmma_commit();
    tkjit::wgmma_wait<0>(sum);
#pragma unroll
    for (int i = 0; i < WIDTH / 2; ++i) {
        const int row = tkjit::wgmma_row(i), col = tkjit::wgmma_col(i);
        char* const tile = reinterpret_cast<char*>(shared->d[col / 32]);
        *reinterpret_cast<SUM*>(tile + tkjit::place_in_tile<decltype(g.d)>(row, col % 32)) = sum[i];
    }
    tkjit::fence_async_proxy();
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int n = 0; n < WIDTH; n += 32) tkjit::tensor_store(g.d, 0, n, shared->d[n / 32]);
        tkjit::bulk_store_commit();
        tkjit::bulk_store_wait<0>();  // required, because nothing else orders the addition after the store
        for (int n = 0; ADDS && n < WIDTH; n += 32) tkjit::tensor_add(g.d, 0, n, shared->d[n / 32]);
        tkjit::bulk_store_commit();
        tkjit::bulk_store_wait<0>();
    }
}
