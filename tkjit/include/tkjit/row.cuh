// One row of a matrix, processed by a block, or by one warp if it is short.
//
// The threads take turns in groups of eight elements, which are loaded with accesses of 16 bytes (8 for elements of a byte)
// if the row's address is a multiple of as many bytes. A row of up to 16384 elements is kept in registers, so that memory
// is read once however many passes follow. Each pass over a longer row reads it again.
#pragma once

#include <tkjit/reduce.cuh>

namespace tkjit {

/// The division of rows of up to `Size` elements: 256, 1024, 4096 or 16384. 65536 is for all longer rows.
template <int Size>
struct RowShape {
    static constexpr bool is_held = Size <= 16384;
    static constexpr int threads = Size <= 1024 ? 32 : Size <= 4096 ? 256 : Size <= 16384 ? 512 : 1024;  // for one row
    static constexpr int rows = threads == 32 ? 4 : 1;                                                   // of a block
    static constexpr int block = threads * rows;
    static constexpr int groups = Size / (8 * threads);  // of a thread
};

/// Eight adjacent elements.
template <class T>
struct alignas(sizeof(T) == 1 ? 8 : 16) Group {
    static constexpr int size = 8;
    T element[size];
};

/// Whether a group at this address can be loaded with one access.
template <class T>
__device__ bool is_aligned(const T* pointer) {
    return reinterpret_cast<size_t>(pointer) % alignof(Group<T>) == 0;
}

/// Loads the group that begins at `col` of a row of `n` elements. Elements past the row's end are undefined.
template <class T>
__device__ Group<T> load_group(const T* row, int col, int n) {
    if (n - col >= Group<T>::size && is_aligned(row + col)) return *reinterpret_cast<const Group<T>*>(row + col);
    Group<T> group;
#pragma unroll
    for (int i = 0; i < Group<T>::size; ++i)
        if (i < n - col) group.element[i] = row[col + i];
    return group;
}

/// A row of which each element is `otherwise` if `data` is null.
template <class T>
struct OptionalRow {
    const T* data;
    float otherwise;
};

template <class T>
__device__ Group<T> load_group(const OptionalRow<T>& row, int col, int n) {
    if (row.data) return load_group(row.data, col, n);
    Group<T> group;
#pragma unroll
    for (int i = 0; i < Group<T>::size; ++i) group.element[i] = T(row.otherwise);
    return group;
}

/// Stores the elements of a group that lie inside the row.
template <class T>
__device__ void store_group(T* row, int col, int n, const Group<T>& group) {
    if (n - col >= Group<T>::size && is_aligned(row + col)) {
        *reinterpret_cast<Group<T>*>(row + col) = group;
        return;
    }
#pragma unroll
    for (int i = 0; i < Group<T>::size; ++i)
        if (i < n - col) row[col + i] = group.element[i];
}

/// Calls `f(group, col)` for each of this thread's groups of row[begin:end], which the whole block processes. Several loads
/// are in flight. The elements of a group past `end` are undefined.
template <class T, class F>
__device__ void each_group(const T* row, int begin, int end, F f) {
    constexpr int size = Group<T>::size, in_flight = 64 / sizeof(Group<T>);
    const unsigned step = blockDim.x * size, last = end;
    unsigned col = begin + threadIdx.x * size;
    if (is_aligned(row + begin)) {
        for (; col + size <= last; col += in_flight * step) {
            Group<T> groups[in_flight];
#pragma unroll
            for (int i = 0; i < in_flight; ++i)
                if (col + i * step + size <= last) groups[i] = *reinterpret_cast<const Group<T>*>(row + col + i * step);
#pragma unroll
            for (int i = 0; i < in_flight; ++i)
                if (col + i * step + size <= last) f(groups[i], int(col + i * step));
        }
        const unsigned whole = (last - begin) / size;  // the group after the whole ones belongs to one thread
        if (whole % blockDim.x != threadIdx.x) return;
        col = begin + whole * size;
    }
    for (; col < last; col += step) f(load_group(row, col, end), int(col));
}

/// Calls `f(x, col)` for each of this thread's elements of a row of `n` elements. The groups begin at the first address that is
/// a multiple of 16; the elements before it have a thread each.
template <class T, class F>
__device__ void each_element(const T* row, int n, F f) {
    const int head = min(n, int((16 - reinterpret_cast<size_t>(row) % 16) % 16 / sizeof(T)));
    if (threadIdx.x < head) f(row[threadIdx.x], int(threadIdx.x));
    each_group(row, head, n, [&](const Group<T>& group, int col) {
#pragma unroll
        for (int i = 0; i < Group<T>::size; ++i)
            if (i < n - col) f(group.element[i], col + i);
    });
}

/// A row of up to `Size` elements, which a block or a warp has loaded. Its functions sum it, map it, and go through its
/// elements; the header describes them.
template <class T, int Size>
class Row {
public:
    using Shape = RowShape<Size>;

    /// The number of the row that this thread works on; it may be past the last one.
    static __device__ size_t number() { return size_t(blockIdx.x) * Shape::rows + threadIdx.x / Shape::threads; }

    /// The column at which this thread's group `i` begins.
    static __device__ int column(int i) {
        return (i * Shape::threads + int(threadIdx.x) % Shape::threads) * Group<T>::size;
    }

    __device__ Row(const T* data, int n) : data_(data), n_(n) {
        if constexpr (is_held) {
#pragma unroll
            for (int i = 0; i < Shape::groups; ++i) held_[i] = load_group(data, column(i), n);
        }
    }

    /// Writes the sum of two rows to `total`, and returns it as a row.
    static __device__ Row sum(const T* a, const T* b, T* total, int n) {
        if constexpr (!is_held) {
            for (int i = 0; column(i) < n; ++i) store_sum(a, b, total, column(i), n);
            return Row(total, n);  // without a barrier, because a thread reads back only its own elements
        } else {
            Row row(total, n, Unread());
#pragma unroll
            for (int i = 0; i < Shape::groups; ++i)
                if (column(i) < n) row.held_[i] = store_sum(a, b, total, column(i), n);
            return row;
        }
    }

    /// Returns the sum of `term(x)` over the row's elements.
    template <class Term>
    __device__ float sum_of(Term term) const {
        float own = 0.f;
        each_element([&](float x, int) { own += term(x); });
        return block_reduce<Sum, Shape::threads>(own);
    }

    /// Calls `f(x, col)` for each of this thread's elements.
    template <class F>
    __device__ void each_element(F f) const {
        each_group([&](const Group<T>& group, int col) { each_of(group, col, f); });
    }

    /// The number of groups of each thread. The last ones may lie past the row's end.
    __device__ int groups() const {
        if constexpr (is_held) return Shape::groups;
        else return (n_ + Group<T>::size * Shape::threads - 1) / (Group<T>::size * Shape::threads);
    }

    /// Returns `f(x, others[col]...)` for this thread's group `i`, and 0 past the row's end. Each of `others` is a row of
    /// the same length, as a pointer or an `OptionalRow`.
    template <class F, class... Others>
    __device__ Group<float> mapped(int i, F f, const Others&... others) const {
        Group<float> result{};
        const int col = column(i);
        if (col < n_) map_group(result, group(i), col, f, load_group(others, col, n_)...);
        return result;
    }

    /// Sets each element of another row, `to[col] = f(x, others[col]...)`, where `others` are rows of the same length.
    template <class F, class To, class... Others>
    __device__ void map(To* to, F f, const Others*... others) const {
        each_group([&](const Group<T>& group, int col) {
            Group<To> result;
            map_group(result, group, col, f, load_group(others, col, n_)...);
            store_group(to, col, n_, result);
        });
    }

private:
    static constexpr bool is_held = Shape::is_held;
    struct Unread {};

    __device__ Row(const T* data, int n, Unread) : data_(data), n_(n) {}

    __device__ Group<T> group(int i) const {
        if constexpr (is_held) return held_[i];
        else return load_group(data_, column(i), n_);
    }

    static __device__ Group<T> store_sum(const T* a, const T* b, T* total, int col, int n) {
        const Group<T> of_a = load_group(a, col, n), of_b = load_group(b, col, n);
        Group<T> sum;
#pragma unroll
        for (int i = 0; i < Group<T>::size; ++i)
            if (col + i < n) sum.element[i] = T(float(of_a.element[i]) + float(of_b.element[i]));
        store_group(total, col, n, sum);
        return sum;
    }

    template <class F>
    __device__ void each_group(F f) const {
        if constexpr (is_held) {
#pragma unroll
            for (int i = 0; i < Shape::groups; ++i)
                if (column(i) < n_) f(held_[i], column(i));
        } else {
            for (int i = 0; column(i) < n_; ++i) f(group(i), column(i));
        }
    }

    template <class F>
    __device__ void each_of(const Group<T>& group, int col, F f) const {
#pragma unroll
        for (int i = 0; i < Group<T>::size; ++i)
            if (col + i < n_) f(float(group.element[i]), col + i);
    }

    template <class F, class To, class... Others>
    __device__ void map_group(Group<To>& to, const Group<T>& group, int col, F f, const Group<Others>&... others) const {
#pragma unroll
        for (int i = 0; i < Group<T>::size; ++i)
            if (col + i < n_) to.element[i] = To(f(float(group.element[i]), float(others.element[i])...));
    }

    const T* data_;
    int n_;
    Group<T> held_[is_held ? Shape::groups : 1];
};

}  // namespace tkjit
