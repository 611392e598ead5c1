// One product with a sparse A: d[64, 8] = a[64, K] @ b[8, K]^T, where half a row of A is 32 bytes, and a row of B is 64.
//
// SUM is the type of the sums, SHAPE and TYPES are those of PTX. SIGNS are the immediates after the scale of D. PAIR is the
// pair of each four lanes that holds the metadata.
#include "instructions.cuh"

#if SUMS_ARE_INTEGERS
#define OUT(x) "+r"(x)
#else
#define OUT(x) "+f"(x)
#endif

__device__ inline void multiply(SUM (&d)[4], uint64_t a, uint64_t b, uint32_t metadata) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %7, 0;\n"
                 "wgmma.mma_async.sp.sync.aligned." SHAPE "." TYPES " {%0, %1, %2, %3}, %4, %5, %6, %8, p" SIGNS "; }"
                 : OUT(d[0]), OUT(d[1]), OUT(d[2]), OUT(d[3])
                 : "l"(a), "l"(b), "r"(metadata), "r"(1), "n"(PAIR));
}

// Writes rows without a swizzle, as units of 16 bytes: eight rows of one unit are adjacent.
__device__ void put(char* tile, const uint8_t* rows, int count, int units) {
    for (int i = threadIdx.x; i < count * units; i += 128) {
        const int row = i / units, unit = i % units;
        *reinterpret_cast<uint4*>(tile + (unit * count + row) * 16) = reinterpret_cast<const uint4*>(rows)[i];
    }
}

__global__ void __launch_bounds__(128) sparse(const uint8_t* a, const int* metadata, const uint8_t* b, SUM* result) {
    __shared__ alignas(1024) char a_tile[64 * 32];
    __shared__ alignas(1024) char b_tile[8 * 64];
    put(a_tile, a, 64, 2);
    put(b_tile, b, 8, 4);
    fence_proxy();
    __syncthreads();
    SUM d[4] = {};
    multiply_fence();
    multiply(d, descriptor(a_tile, 64 * 16, 128, 0), descriptor(b_tile, 8 * 16, 128, 0), metadata[threadIdx.x]);
    multiply_wait();
    for (int i = 0; i < 4; i++) {
        const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + 8 * (i / 2);
        result[row * 8 + threadIdx.x % 4 * 2 + i % 2] = d[i];
    }
}
