// One tile with tensor maps and wgmma: d[64, 64] = a[64, K] @ b[K, 64], where K elements are 128 bytes.
//
// ELEMENT and SUM are the types of elements and sums, TYPES their names in PTX. SWIZZLE is 0, 32, 64 or 128 bytes.
// A_BY_COLUMNS: a is (K, 64) instead of (64, K). B_BY_ROWS: b is (K, 64) instead of (64, K). A_IN_REGISTERS: a is in registers.
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <tkjit/driver.h>

#include <stdexcept>

#include "instructions.cuh"

#if SUMS_ARE_INTEGERS
#define OUT(x) "+r"(x)
#define SIGNS_OF_SHARED ""
#define SIGNS_OF_REGISTERS ""
#define STORED
#define STORED_B
#elif TWO_BYTES
#define OUT(x) "+f"(x)
#define SIGNS_OF_SHARED ", 1, 1, %35, %36"
#define SIGNS_OF_REGISTERS ", 1, 1, %38"
#define STORED , "n"(A_BY_COLUMNS), "n"(B_BY_ROWS)
#define STORED_B , "n"(B_BY_ROWS)
#else
#define OUT(x) "+f"(x)
#define SIGNS_OF_SHARED ", 1, 1"
#define SIGNS_OF_REGISTERS ", 1, 1"
#define STORED
#define STORED_B
#endif

// The scale of D is a predicate, and the signs of A and B are 1. Only two-byte elements also have flags for transposition.
__device__ inline void multiply(SUM (&d)[32], uint64_t a, uint64_t b) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned." SHAPE "." TYPES " "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, p" SIGNS_OF_SHARED ";\n"
        "}\n"
        : OUT(d[0]), OUT(d[1]), OUT(d[2]), OUT(d[3]), OUT(d[4]), OUT(d[5]), OUT(d[6]), OUT(d[7]), OUT(d[8]), OUT(d[9]), OUT(d[10]), OUT(d[11]), OUT(d[12]), OUT(d[13]), OUT(d[14]), OUT(d[15]), OUT(d[16]), OUT(d[17]), OUT(d[18]), OUT(d[19]), OUT(d[20]), OUT(d[21]), OUT(d[22]), OUT(d[23]), OUT(d[24]), OUT(d[25]), OUT(d[26]), OUT(d[27]), OUT(d[28]), OUT(d[29]), OUT(d[30]), OUT(d[31])
        : "l"(a), "l"(b), "r"(1) STORED);
}
__device__ inline void multiply(SUM (&d)[32], const uint32_t (&a)[4], uint64_t b) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %37, 0;\n"
        "wgmma.mma_async.sync.aligned." SHAPE "." TYPES " "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, p" SIGNS_OF_REGISTERS ";\n"
        "}\n"
        : OUT(d[0]), OUT(d[1]), OUT(d[2]), OUT(d[3]), OUT(d[4]), OUT(d[5]), OUT(d[6]), OUT(d[7]), OUT(d[8]), OUT(d[9]), OUT(d[10]), OUT(d[11]), OUT(d[12]), OUT(d[13]), OUT(d[14]), OUT(d[15]), OUT(d[16]), OUT(d[17]), OUT(d[18]), OUT(d[19]), OUT(d[20]), OUT(d[21]), OUT(d[22]), OUT(d[23]), OUT(d[24]), OUT(d[25]), OUT(d[26]), OUT(d[27]), OUT(d[28]), OUT(d[29]), OUT(d[30]), OUT(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1) STORED_B);
}

constexpr int ROWS = 64, K = 128 / sizeof(ELEMENT), STEPS = 4;
constexpr int WIDTH = SWIZZLE ? SWIZZLE : 16;  // bytes of a row of a box
constexpr uint64_t SWIZZLE_MODE = SWIZZLE == 128 ? 1 : SWIZZLE == 64 ? 2 : SWIZZLE == 32 ? 3 : 0;

// Loads (rows, columns) elements as adjacent boxes with rows of WIDTH bytes.
__device__ void load(char* to, const CUtensorMap& map, uint64_t& barrier, int rows, int columns) {
    constexpr int in_box = WIDTH / sizeof(ELEMENT);
    for (int x = 0; x < columns; x += in_box) load_2d(to + x / in_box * rows * WIDTH, &map, barrier, x, 0);
}

__device__ uint64_t of_rows(const char* tile, int step) {  // stored with K as the contiguous dimension
    const int byte = step * 32;
    const char* const at = tile + byte / WIDTH * ROWS * WIDTH + byte % WIDTH;
    return descriptor(at, SWIZZLE ? 16 : ROWS * 16, 8 * WIDTH, SWIZZLE_MODE);
}
__device__ uint64_t of_columns(const char* tile, int step) {  // stored with M or N as the contiguous dimension
    const char* const at = tile + step * 16 * WIDTH;
    return SWIZZLE ? descriptor(at, K * WIDTH, 8 * WIDTH, SWIZZLE_MODE) : descriptor(at, 128, K * 16, 0);
}

__global__ void product(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, const ELEMENT* a,
                        SUM* result) {
    extern __shared__ __align__(1024) char tiles[];
    __shared__ uint64_t loaded;
    char *const a_tile = tiles, *const b_tile = tiles + 8192;
    if (threadIdx.x == 0) barrier_init(loaded, 1);
    __syncthreads();
    if (threadIdx.x < 32 && elected()) {
        barrier_expect(loaded, 2 * 8192);
        A_BY_COLUMNS ? load(a_tile, a_map, loaded, K, ROWS) : load(a_tile, a_map, loaded, ROWS, K);
        B_BY_ROWS ? load(b_tile, b_map, loaded, K, ROWS) : load(b_tile, b_map, loaded, ROWS, K);
    }
    barrier_wait(loaded, 0);
    SUM d[32];
    for (SUM& each : d) each = 0;
    multiply_fence();
    for (int step = 0; step < STEPS; step++) {
        const uint64_t b = B_BY_ROWS ? of_columns(b_tile, step) : of_rows(b_tile, step);
#if A_IN_REGISTERS
        uint32_t own[4];
        const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, packed = 4 / sizeof(ELEMENT);
        for (int i = 0; i < 4; i++) {
            const int column = step * 32 / sizeof(ELEMENT) + packed * (threadIdx.x % 4) + 4 * packed * (i / 2);
            own[i] = *reinterpret_cast<const uint32_t*>(&a[(row + 8 * (i % 2)) * K + column]);
        }
        multiply(d, own, b);
#else
        multiply(d, A_BY_COLUMNS ? of_columns(a_tile, step) : of_rows(a_tile, step), b);
#endif
    }
    multiply_wait();
    for (int i = 0; i < 32; i++) {
        const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + 8 * (i / 2 % 2);
        result[row * 64 + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2] = d[i];
    }
}

CUtensorMap map_of(const ELEMENT* data, int rows, int columns) {
    CUtensorMap map;
    const cuuint64_t sizes[] = {cuuint64_t(columns), cuuint64_t(rows)}, strides[] = {columns * sizeof(ELEMENT)};
    const cuuint32_t box[] = {WIDTH / sizeof(ELEMENT), cuuint32_t(rows)}, steps[] = {1, 1};
    const CUtensorMapSwizzle modes[] = {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_SWIZZLE_64B,
                                        CU_TENSOR_MAP_SWIZZLE_32B};
    const CUresult made = cuTensorMapEncodeTiled(
        &map, MAP_TYPE, 2, const_cast<ELEMENT*>(data), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
        modes[SWIZZLE_MODE], CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (made != CUDA_SUCCESS) throw std::runtime_error("the driver rejects the tensor map");
    return map;
}

void multiply_tile(const ELEMENT* a, const ELEMENT* b, SUM* result) {
    const CUtensorMap a_map = A_BY_COLUMNS ? map_of(a, K, ROWS) : map_of(a, ROWS, K);
    const CUtensorMap b_map = B_BY_ROWS ? map_of(b, K, ROWS) : map_of(b, ROWS, K);
    product<<<1, 128, 2 * 8192>>>(a_map, b_map, a, result);
}
