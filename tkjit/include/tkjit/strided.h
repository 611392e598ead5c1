// Strided layout: a pointer, and the extent and stride of each of up to 8 dims. This is how a kernel sees a transposed or
// sliced view.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#ifdef TKJIT_SIM_BOUNDS
#include <tkjit/bounds.h>
#endif

namespace tkjit {

template <class T, int Rank, class Axes = std::make_index_sequence<size_t(Rank)>>
struct strided;

template <class T, int Rank, size_t... Axis>
struct strided<T, Rank, std::index_sequence<Axis...>> {
    using dtype = T;
    static constexpr int rank = Rank;

    T* raw_ptr = nullptr;
    int extents[Rank] = {};
    int64_t strides[Rank] = {};  // in elements

    __host__ __device__ constexpr int extent(int axis) const { return extents[axis]; }
    __host__ __device__ constexpr int64_t stride(int axis) const { return strides[axis]; }
    __host__ __device__ constexpr size_t numel() const { return raw_ptr ? (size_t(extents[Axis]) * ...) : 0; }

    // False for an optional field that the call left out.
    __host__ __device__ constexpr explicit operator bool() const { return raw_ptr != nullptr; }

#ifdef TKJIT_SIM_BOUNDS
    Label label{};

    template <size_t>
    using Index = bounds::Index;

    constexpr T& operator()(Index<Axis>... index) const {
        (check(Axis, index), ...);
        return raw_ptr[((index.value * strides[Axis]) + ...)];
    }

private:
    constexpr void check(size_t axis, bounds::Index index) const {
        if (bounds::exceeds(index.value, extents[axis])) [[unlikely]] {
            if (!bounds::is_refused(index.value, extents[axis], label)) return;
            const char name[] = {'d', 'i', 'm', ' ', char('0' + axis), '\0'};
            const char bound[] = {'e', 'x', 't', 'e', 'n', 't', '(', char('0' + axis), ')', '\0'};
            bounds::fail_axis(label, name, index.value, extents[axis], bound, index.site);
        }
    }
#else
    template <size_t>
    using Index = int64_t;

    // Takes one index for each dim. The simulator checks the indices against the extents.
    __host__ __device__ constexpr T& operator()(Index<Axis>... index) const {
        return raw_ptr[((index * strides[Axis]) + ...)];
    }
#endif
};

}  // namespace tkjit
