// Tensor maps: descriptions of a matrix for TMA, the hardware that copies tiles of it. Needs sm_90.
//
//     struct Globals { tkjit::tiled<bf16, 128, 64> a; };    // tiles of 128 rows and 64 columns, swizzled by 128 bytes
//
// A launcher makes a `tiled` from a tensor, just as it makes a `tkjit::gl`. For a tensor with any strides, derive a struct
// from it that is made from a `tkjit::strided` (field_types.h). Pass the map as a kernel parameter:
// `const __grid_constant__ Globals g`. Elements outside the matrix are 0 in a loaded tile, and are skipped by a store. In a
// `tiled`, a tensor is one matrix, whose rows its leading dimensions count as well. In a `tiled_batch`, it is a matrix for
// each index of the leading dimensions, and a tile does not extend into the next one.
//
// Source: CUDA Driver API, "cuTensorMapEncodeTiled"; PTX ISA, "Data Movement: cp.async.bulk.tensor".
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdint.h>

#include <stdexcept>
#include <string>
#include <type_traits>

#include "driver.h"
#include "mbarrier.cuh"
#include "shared_memory.cuh"
#include "strided.h"
#include "tf32.cuh"

namespace tkjit {

/// The element type as a tensor map names it. All 8-bit types are copied as bytes.
template <class T>
constexpr CUtensorMapDataType tensor_map_type() {
    if constexpr (std::is_same_v<T, __nv_bfloat16>) return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    else if constexpr (std::is_same_v<T, __half>) return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    else if constexpr (std::is_same_v<T, float>) return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    else if constexpr (std::is_same_v<T, tf32>) return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
    else if constexpr (std::is_same_v<T, double>) return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    else if constexpr (std::is_same_v<T, int32_t>) return CU_TENSOR_MAP_DATA_TYPE_INT32;
    else if constexpr (std::is_same_v<T, int64_t>) return CU_TENSOR_MAP_DATA_TYPE_INT64;
    else if constexpr (std::is_same_v<T, uint32_t>) return CU_TENSOR_MAP_DATA_TYPE_UINT32;
    else if constexpr (std::is_same_v<T, uint16_t>) return CU_TENSOR_MAP_DATA_TYPE_UINT16;
    else {
        static_assert(sizeof(T) == 1, "tensor maps do not support this element type");
        return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    }
}

/// A matrix that is copied in tiles of `Rows` x `Cols`, swizzled by `Swizzle` bytes: 0, or 32, 64 or 128 if a row of a
/// tile has that many. `Rank` is 3 for many matrices. If T is tf32, the matrix in global memory has elements of float,
/// which a copy to shared memory rounds. Constructed on the host. `is_mapped` is false if the matrix is empty, or if TMA
/// cannot copy it: the elements of a row are not adjacent, or its address or a stride is not a multiple of 16 bytes.
///     template <class T, int Rows, int Cols, int Swizzle = 128, int Rank = 2>
///     struct tiled {
///         using dtype;                                                  // T, or float if T is tf32
///         static constexpr int tile_rows, tile_cols, swizzle_bytes, rank;
///         static constexpr uint32_t tile_bytes;                         // of one tile, for mbarrier_expect_tx
///         dtype* raw_ptr;
///         bool is_mapped;
///         int rows() const, cols() const, matrices() const;
///     };
template <class T, int Rows, int Cols, int Swizzle = 128, int Rank = 2>
struct tiled {
    using dtype = std::conditional_t<std::is_same_v<T, tf32>, float, T>;
    static constexpr int tile_rows = Rows, tile_cols = Cols, swizzle_bytes = Swizzle, rank = Rank;
    static constexpr uint32_t tile_bytes = Rows * Cols * sizeof(T);
    static_assert(Rows <= 256 && Cols <= 256, "a tile has at most 256 rows and columns");
    static_assert(Cols * sizeof(T) % 16 == 0, "a row of a tile is a multiple of 16 bytes");
    // a narrower row would take up as much shared memory as the swizzle is wide
    static_assert(Swizzle == 0 || Cols * sizeof(T) == Swizzle, "a row of a tile has as many bytes as the swizzle");

    CUtensorMap map{};
    dtype* raw_ptr;
    int extents[4];
    bool is_mapped = false;
    bool is_repeated = false;  // the matrices are one with stride 0, which is the only one of the map

    __host__ __device__ int rows() const { return (Rank == 2 ? extents[0] * extents[1] : 1) * extents[2]; }  // of a matrix
    __host__ __device__ int cols() const { return extents[3]; }
    __host__ __device__ int matrices() const { return Rank == 2 ? 1 : extents[0] * extents[1]; }

    tiled(dtype* pointer, int batch, int depth, int rows, int cols) : raw_ptr(pointer), extents{batch, depth, rows, cols} {
        const CUresult status = encode(cols, int64_t(rows) * cols);
        if (status == CUDA_SUCCESS) return;
        const char* why = nullptr;
        cuGetErrorString(status, &why);
        throw std::runtime_error("the driver rejects a tensor map of " + std::to_string(this->rows()) + " x " +
                                 std::to_string(cols) + ": " + (why ? why : "unknown error"));
    }

    explicit tiled(const strided<dtype, Rank>& matrix)
        : raw_ptr(matrix.raw_ptr),
          extents{1, Rank == 3 ? matrix.extent(0) : 1, matrix.extent(Rank - 2), matrix.extent(Rank - 1)},
          is_repeated(Rank == 3 && matrix.stride(0) == 0) {
        // the driver may reject a stride, such as one of 2^40 bytes
        if (matrix.stride(Rank - 1) == 1 || cols() == 1) encode(matrix.stride(Rank - 2), matrix.stride(0));
    }

private:
    // Makes the map if TMA can copy the matrix. The strides are in elements.
    CUresult encode(int64_t row_stride, int64_t matrix_stride) {
        const uint64_t sizes[3] = {uint64_t(cols()), uint64_t(rows()), is_repeated ? 1 : uint64_t(matrices())};
        if (!raw_ptr || !sizes[0] || !sizes[1] || !sizes[2]) return CUDA_SUCCESS;
        // TMA does not use the stride of an extent of 1, but checks it
        const uint64_t strides[2] = {sizes[1] > 1 ? row_stride * sizeof(T) : 16, sizes[2] > 1 ? matrix_stride * sizeof(T) : 16};
        if (!strides[0] || !strides[1] || (strides[0] | strides[1] | reinterpret_cast<uintptr_t>(raw_ptr)) % 16)
            return CUDA_SUCCESS;
        const uint32_t box[3] = {Cols, Rows, 1}, steps[3] = {1, 1, 1};
        const CUresult status = cuTensorMapEncodeTiled(
            &map, tensor_map_type<std::remove_const_t<T>>(), Rank, const_cast<std::remove_const_t<dtype>*>(raw_ptr), sizes, strides,
            box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
            Swizzle == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
            : Swizzle == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
            : Swizzle == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                            : CU_TENSOR_MAP_SWIZZLE_NONE,
            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
        is_mapped = status == CUDA_SUCCESS;
        return status;
    }
};

/// A matrix for each index of a tensor's leading dimensions, whose tiles end at the matrix's edge.
template <class T, int Rows, int Cols, int Swizzle = 128>
using tiled_batch = tiled<T, Rows, Cols, Swizzle, 3>;

/// The offset of an element in a tile, in bytes. The tile's address is a multiple of 1024 bytes, and bits 4 to 6 are XORed
/// with bits 7 to 9. Source: PTX ISA, "Swizzling Modes".
template <class Tiled>
__host__ __device__ constexpr uint32_t place_in_tile(int row, int col) {
    constexpr uint32_t mask = Tiled::swizzle_bytes ? Tiled::swizzle_bytes / 16 - 1 : 0;
    const uint32_t place = (row * Tiled::tile_cols + col) * sizeof(typename Tiled::dtype);
    return place ^ ((place >> 7 & mask) << 4);
}

#ifdef TKJIT_SIM

namespace detail {
template <class Tiled>
const sim::TensorMap* map_of(const Tiled& matrix) {
    return reinterpret_cast<const sim::TensorMap*>(&matrix.map);
}
}  // namespace detail

/// Prefetches the map before the first copy.
template <class Tiled>
inline void prefetch_tensor_map(const Tiled&) {}

/// Copies the tile at (row, col), which may be outside the matrix, to shared memory; `tile_bytes` arrive at the barrier.
template <class Tiled>
inline void tensor_load(void* shared, const Tiled& matrix, int row, int col, uint64_t* barrier,
                        sim::Site site = sim::Site::here()) {
    const int at[2] = {col, row};
    sim::tensor_load(shared, detail::map_of(matrix), at, 2, barrier, site);
}

/// The same for a tile of one of many matrices.
template <class Tiled>
inline void tensor_load(void* shared, const Tiled& matrices, int number, int row, int col, uint64_t* barrier,
                        sim::Site site = sim::Site::here()) {
    static_assert(Tiled::rank == 3, "a tiled_batch has many matrices");
    const int at[3] = {col, row, matrices.is_repeated ? 0 : number};
    sim::tensor_load(shared, detail::map_of(matrices), at, 3, barrier, site);
}

/// Copies a tile from shared memory to (row, col). Commit it and wait for it like the stores of bulk_copy.cuh.
template <class Tiled>
inline void tensor_store(const Tiled& matrix, int row, int col, const void* shared, sim::Site site = sim::Site::here()) {
    const int at[2] = {col, row};
    sim::tensor_store(detail::map_of(matrix), at, 2, shared, sim::Reduction::none, site);
}

/// The same for a tile of one of many matrices.
template <class Tiled>
inline void tensor_store(const Tiled& matrices, int number, int row, int col, const void* shared,
                         sim::Site site = sim::Site::here()) {
    static_assert(Tiled::rank == 3, "a tiled_batch has many matrices");
    const int at[3] = {col, row, number};
    sim::tensor_store(detail::map_of(matrices), at, 3, shared, sim::Reduction::none, site);
}

/// Adds a tile in shared memory to the matrix at (row, col). The addition of each element is atomic.
template <class Tiled>
inline void tensor_add(const Tiled& matrix, int row, int col, const void* shared, sim::Site site = sim::Site::here()) {
    const int at[2] = {col, row};
    sim::tensor_store(detail::map_of(matrix), at, 2, shared, sim::Reduction::add_, site);
}

#else

/// Prefetches the map before the first copy.
template <class Tiled>
__device__ __forceinline__ void prefetch_tensor_map(const Tiled& matrix) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&matrix.map) : "memory");
}

/// Copies the tile at (row, col), which may be outside the matrix, to shared memory; `tile_bytes` arrive at the barrier.
template <class Tiled>
__device__ __forceinline__ void tensor_load(void* shared, const Tiled& matrix, int row, int col, uint64_t* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
            shared_address(shared)),
        "l"(&matrix.map), "r"(col), "r"(row), "r"(shared_address(barrier))
        : "memory");
}

/// The same for a tile of one of many matrices.
template <class Tiled>
__device__ __forceinline__ void tensor_load(void* shared, const Tiled& matrices, int number, int row, int col,
                                            uint64_t* barrier) {
    static_assert(Tiled::rank == 3, "a tiled_batch has many matrices");
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(
            shared_address(shared)),
        "l"(&matrices.map), "r"(col), "r"(row), "r"(matrices.is_repeated ? 0 : number), "r"(shared_address(barrier))
        : "memory");
}

/// Copies a tile from shared memory to (row, col). Commit it and wait for it like the stores of bulk_copy.cuh.
template <class Tiled>
__device__ __forceinline__ void tensor_store(const Tiled& matrix, int row, int col, const void* shared) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&matrix.map), "r"(col),
                 "r"(row), "r"(shared_address(shared))
                 : "memory");
}

/// The same for a tile of one of many matrices.
template <class Tiled>
__device__ __forceinline__ void tensor_store(const Tiled& matrices, int number, int row, int col, const void* shared) {
    static_assert(Tiled::rank == 3, "a tiled_batch has many matrices");
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(&matrices.map),
                 "r"(col), "r"(row), "r"(number), "r"(shared_address(shared))
                 : "memory");
}

/// Adds a tile in shared memory to the matrix at (row, col). The addition of each element is atomic.
template <class Tiled>
__device__ __forceinline__ void tensor_add(const Tiled& matrix, int row, int col, const void* shared) {
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&matrix.map),
                 "r"(col), "r"(row), "r"(shared_address(shared))
                 : "memory");
}

#endif

}  // namespace tkjit
