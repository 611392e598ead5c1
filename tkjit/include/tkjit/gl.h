// Global layout: a pointer and four extents: batch, depth, rows, cols.
//
// The template argument of an extent is its value if the spec fixes it, or -1 if each call sets it. A tensor with fewer
// than four dimensions is right-aligned: its missing dimensions on the left are 1.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#ifdef TKJIT_SIM_BOUNDS
#include <tkjit/bounds.h>
#endif

namespace tkjit {

template <class T, int Batch = -1, int Depth = -1, int Rows = -1, int Cols = -1>
struct gl {
    using dtype = T;

    T* raw_ptr = nullptr;

    // The extents that the call passed. The members below use the template arguments for fixed extents.
    int extents[4] = {0, 0, 0, 0};

    __host__ __device__ constexpr int batch() const { return Batch >= 0 ? Batch : extents[0]; }
    __host__ __device__ constexpr int depth() const { return Depth >= 0 ? Depth : extents[1]; }
    __host__ __device__ constexpr int rows() const { return Rows >= 0 ? Rows : extents[2]; }
    __host__ __device__ constexpr int cols() const { return Cols >= 0 ? Cols : extents[3]; }
    __host__ __device__ constexpr size_t numel() const { return size_t(batch()) * depth() * rows() * cols(); }

    // False for an optional field that the call left out.
    __host__ __device__ constexpr explicit operator bool() const { return raw_ptr != nullptr; }

#ifdef TKJIT_SIM_BOUNDS
    Label label{};

    constexpr T& operator()(int row, int col, sim::Site site = sim::Site::here()) const {
        if (bounds::exceeds(row, rows()) || bounds::exceeds(col, cols())) [[unlikely]] {
            const long long all_rows = (long long)batch() * depth() * rows();  // kernels may count rows across matrices
            if (bounds::is_refused(row, all_rows, label) || bounds::is_refused(col, cols(), label))
                bounds::fail_row_or_col(label, row, col, all_rows, cols(), site);
        }
        return raw_ptr[size_t(row) * cols() + col];
    }
    constexpr T& operator()(int batch, int depth, int row, int col, sim::Site site = sim::Site::here()) const {
        check("batch", batch, this->batch(), "batch()", site);
        check("depth", depth, this->depth(), "depth()", site);
        check("row", row, rows(), "rows()", site);
        check("col", col, cols(), "cols()", site);
        return raw_ptr[((size_t(batch) * this->depth() + depth) * rows() + row) * cols() + col];
    }
    constexpr T& operator[](bounds::Index i) const {
        if (bounds::exceeds(i.value, numel())) [[unlikely]]
            if (bounds::is_refused(i.value, numel(), label)) bounds::fail_element(label, i, numel());
        return raw_ptr[i.value];
    }

private:
    constexpr void check(const char* axis, int index, int extent, const char* bound, sim::Site site) const {
        if (bounds::exceeds(index, extent)) [[unlikely]]
            if (bounds::is_refused(index, extent, label)) bounds::fail_axis(label, axis, index, extent, bound, site);
    }
#else
    // Row-major. The simulator checks indices against the extents.
    __host__ __device__ constexpr T& operator()(int row, int col) const { return raw_ptr[size_t(row) * cols() + col]; }
    __host__ __device__ constexpr T& operator()(int batch, int depth, int row, int col) const {
        return raw_ptr[((size_t(batch) * this->depth() + depth) * rows() + row) * cols() + col];
    }
    __host__ __device__ constexpr T& operator[](size_t i) const { return raw_ptr[i]; }
#endif
};

// A scalar field that a call may leave out.
template <class T>
struct optional {
    T value{};
    bool present = false;

    __host__ __device__ constexpr explicit operator bool() const { return present; }
    __host__ __device__ constexpr T value_or(T other) const { return present ? value : other; }
};

}  // namespace tkjit
