// Parallel global layout: a tensor with one part on each of several devices, all of the same extents. It has a pointer
// to each part and, if the hardware supports multicast, one pointer that reaches all of them.
#pragma once

#include <tkjit/gl.h>

namespace tkjit {

template <class T, int Batch = -1, int Depth = -1, int Rows = -1, int Cols = -1>
struct pgl {
    using dtype = T;
    using layout = gl<T, Batch, Depth, Rows, Cols>;
    static constexpr int max_devices = 32;

    T* pointers[max_devices] = {};
    T* multicast_ptr = nullptr;  // null without multicast
    int count = 0;
    int extents[4] = {0, 0, 0, 0};
#ifdef TKJIT_SIM_BOUNDS
    Label label{};

    constexpr layout operator[](bounds::Index device) const {
        if (bounds::in_kernel() && (device.value < 0 || device.value >= count))
            bounds::fail_axis(label, "device", device.value, count, "num_devices()", device.site);
        return {pointers[device.value], {extents[0], extents[1], extents[2], extents[3]}, label};
    }
#else
    // The part of one device.
    __host__ __device__ constexpr layout operator[](int device) const {
        return {pointers[device], {extents[0], extents[1], extents[2], extents[3]}};
    }
#endif

    __host__ __device__ constexpr int num_devices() const { return count; }
    __host__ __device__ constexpr int batch() const { return Batch >= 0 ? Batch : extents[0]; }
    __host__ __device__ constexpr int depth() const { return Depth >= 0 ? Depth : extents[1]; }
    __host__ __device__ constexpr int rows() const { return Rows >= 0 ? Rows : extents[2]; }
    __host__ __device__ constexpr int cols() const { return Cols >= 0 ? Cols : extents[3]; }
    __host__ __device__ constexpr size_t numel() const { return size_t(batch()) * depth() * rows() * cols(); }

    __host__ __device__ constexpr explicit operator bool() const { return count > 0; }
};

}  // namespace tkjit
