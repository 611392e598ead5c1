// Loads a box of a 3-dimensional tensor into shared memory, adds 1, and stores it to another tensor or adds it there.
#include <cuda.h>
#include <tkjit/driver.h>

#include <stdexcept>

#include "instructions.cuh"

constexpr int X = 8, Y = 4, Z = 2;

__global__ void move_box(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to, int x, int y, int z,
                         int to_x, int to_y, int to_z, int adds) {
    __shared__ __align__(128) float box[Z][Y][X];
    __shared__ uint64_t loaded;
    if (threadIdx.x == 0) {
        barrier_init(loaded, 1);
        barrier_expect(loaded, sizeof(box));
        load_3d(box, &from, loaded, x, y, z);
    }
    __syncthreads();
    barrier_wait(loaded, 0);
    box[threadIdx.x / 32][threadIdx.x / 8 % 4][threadIdx.x % 8] += 1;
    fence_proxy();
    __syncthreads();
    if (threadIdx.x == 0) {
        adds ? add_3d(&to, box, to_x, to_y, to_z) : store_3d(&to, box, to_x, to_y, to_z);
        commit_stores();
        wait_for_stores();
    }
}

CUtensorMap map_of(const float* data, int depth, int rows, int columns, bool fills_with_nan) {
    CUtensorMap map;
    const cuuint64_t sizes[] = {cuuint64_t(columns), cuuint64_t(rows), cuuint64_t(depth)};
    const cuuint64_t strides[] = {columns * sizeof(float), rows * columns * sizeof(float)};
    const cuuint32_t box[] = {X, Y, Z}, steps[] = {1, 1, 1};
    const CUresult made = cuTensorMapEncodeTiled(
        &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 3, const_cast<float*>(data), sizes, strides, box, steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
        fills_with_nan ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (made != CUDA_SUCCESS) throw std::runtime_error("the driver rejects the tensor map");
    return map;
}

void move(const float* from, float* to, int depth, int rows, int columns, int x, int y, int z, int to_x,
          int to_y, int to_z, int adds, int nan) {
    move_box<<<1, X * Y * Z>>>(map_of(from, depth, rows, columns, nan), map_of(to, depth, rows, columns, false), x, y, z, to_x,
                               to_y, to_z, adds);
}
