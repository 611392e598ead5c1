// The simulator's `mma.h`: nvcuda::wmma, products of small matrices by a warp.
//
// Source: CUDA C++ Programming Guide, "Warp Matrix Functions". The guide leaves the layout of a fragment unspecified.
// The simulator uses sm_80's layout for 16 x 16 matrices, and all fragments of one type have the same layout. Products
// are exact, and sums of floats are rounded to float after each addition. Sub-byte types are missing.
#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "detail/tf32_rounding.h"

#include <type_traits>

namespace nvcuda::wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

namespace precision {
struct tf32;
}

// Sub-byte types are only declared, for libraries that mention them.
namespace experimental {
namespace precision {
struct b1;
struct s4;
struct u4;
}  // namespace precision
enum bmmaBitOp { bmmaBitOpXOR = 1, bmmaBitOpAND = 2 };
enum bmmaAccumulateOp { bmmaAccumulateOpPOPC = 1 };
}  // namespace experimental
template <class Sums, class A, class B>
[[noreturn]] void bmma_sync(Sums&, const A&, const B&, const Sums&,
                            experimental::bmmaBitOp = experimental::bmmaBitOpXOR,
                            experimental::bmmaAccumulateOp = experimental::bmmaAccumulateOpPOPC,
                            tkjit::sim::Site site = tkjit::sim::Site::here()) {
    tkjit::sim::fail(site, "the simulator has no sub-byte types of nvcuda::wmma");
}

/// Rounds a float to the ten bits of mantissa that tf32 has.
inline float __float_to_tf32(float value) {
    return __uint_as_float(tkjit::sim::rounded_to_tf32(__float_as_uint(value)));
}

namespace detail {

using tkjit::sim::Site;

/// The place of a lane's element i in a `rows` x `columns` matrix; for B, in the transposed matrix.
struct Place {
    int row, column;
};
template <int rows, int columns>
constexpr Place place(int lane, int i) {
    const int group = lane / 4, thread = lane % 4;
    if (columns == 4) return {group, thread};
    if (rows == 8) return {group, 2 * thread + i % 2 + 8 * (i / 2)};
    const int in_slab = i % (columns / 2);
    return {i / (columns / 2) * 16 + group + 8 * (in_slab / 2 % 2), 2 * thread + in_slab % 2 + 8 * (in_slab / 4)};
}

template <class Use, int m, int n, int k>
constexpr int rows = std::is_same_v<Use, matrix_b> ? n : m;
template <class Use, int m, int n, int k>
constexpr int columns = std::is_same_v<Use, accumulator> ? n : k;

template <class T>
struct Element {
    using type = T;
    using Sum = std::conditional_t<std::is_integral_v<T>, unsigned, std::conditional_t<std::is_same_v<T, double>, double, float>>;
    static Sum value(T element) {
        if constexpr (std::is_same_v<T, __half>) return __half2float(element);
        else if constexpr (std::is_same_v<T, __nv_bfloat16>) return __bfloat162float(element);
        else return static_cast<Sum>(element);
    }
    static T rounded(Sum sum) {
        if constexpr (std::is_same_v<T, __half>) return __float2half(sum);
        else return static_cast<T>(sum);
    }
};
template <>
struct Element<precision::tf32> {
    using type = float;
    using Sum = float;
    /// Truncates the float to tf32, in case the kernel has not rounded it with __float_to_tf32.
    static float value(float element) { return __uint_as_float(__float_as_uint(element) & ~0x1fffu); }
};

template <class T, int m, int n, int k>
constexpr bool is_product = (std::is_same_v<T, precision::tf32> && m == 16 && n == 16 && k == 8) ||
                            (std::is_same_v<T, double> && m == 8 && n == 8 && k == 4) ||
                            ((std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16> ||
                              std::is_same_v<T, signed char> || std::is_same_v<T, unsigned char>) &&
                             k == 16 && m * n == 256 && (m == 16 || m == 8 || m == 32));
template <class T, int m, int n, int k>
constexpr bool is_sum = (std::is_same_v<T, double> && m == 8 && n == 8 && k == 4) ||
                        (std::is_same_v<T, float> && m == 16 && n == 16 && k == 8) ||
                        ((std::is_same_v<T, float> || std::is_same_v<T, __half> || std::is_same_v<T, int>) && k == 16 &&
                         m * n == 256 && (m == 16 || m == 8 || m == 32));

/// Lets the lanes meet, without an order between their accesses to memory.
inline void together(Site site) {
    tkjit::sim::require_full_warp(tkjit::sim::Operation::mma, site);
    tkjit::sim::vote(~0u, tkjit::sim::Operation::mma, true, site);
}

}  // namespace detail

/// A lane's part of a matrix. As in CUDA, an operand of halves always has 16 elements; those beyond the matrix are
/// unused here.
template <class Use, int m, int n, int k, class T, class Layout = void>
class fragment {
    static constexpr bool is_accumulator = std::is_same_v<Use, accumulator>;
    static_assert(is_accumulator ? detail::is_sum<T, m, n, k> : detail::is_product<T, m, n, k>,
                  "wmma does not support matrices of this shape and type");

  public:
    using element_type = T;
    using storage_element_type = typename detail::Element<T>::type;
    static constexpr int used_elements = detail::rows<Use, m, n, k> * detail::columns<Use, m, n, k> / 32;
    static constexpr int num_elements = !is_accumulator && std::is_same_v<T, __half> ? 16 : used_elements;
    static constexpr int num_storage_elements = num_elements;

    storage_element_type x[num_elements];

    /// Calls `visit(row, column, element)` for each element of a lane. For B these are the row and column in B itself.
    template <class Visit>
    void for_each(int lane, Visit visit) {
        for (int i = 0; i < used_elements; i++) {
            const detail::Place at = detail::place<detail::rows<Use, m, n, k>, detail::columns<Use, m, n, k>>(lane, i);
            if constexpr (std::is_same_v<Use, matrix_b>) visit(at.column, at.row, x[i]);
            else visit(at.row, at.column, x[i]);
        }
    }
};

template <class Use, int m, int n, int k, class T, class Layout, class Value>
void fill_fragment(fragment<Use, m, n, k, T, Layout>& matrix, const Value& value) {
    for (auto& element : matrix.x) element = value;
}

template <class Use, int m, int n, int k, class T, class Layout>
    requires(!std::is_same_v<Layout, void>)
void load_matrix_sync(fragment<Use, m, n, k, T, Layout>& matrix,
                      const typename detail::Element<T>::type* source, unsigned leading,
                      detail::Site site = detail::Site::here()) {
    detail::together(site);
    matrix.for_each(tkjit::sim::running_lane(), [&](int row, int column, auto& element) {
        element = std::is_same_v<Layout, row_major> ? source[row * leading + column] : source[column * leading + row];
    });
    for (int i = matrix.used_elements; i < matrix.num_elements; i++) matrix.x[i] = matrix.x[i % matrix.used_elements];
}

template <int m, int n, int k, class T>
void load_matrix_sync(fragment<accumulator, m, n, k, T>& matrix, const T* source, unsigned leading, layout_t layout,
                      detail::Site site = detail::Site::here()) {
    detail::together(site);
    matrix.for_each(tkjit::sim::running_lane(), [&](int row, int column, T& element) {
        element = layout == mem_row_major ? source[row * leading + column] : source[column * leading + row];
    });
}

template <int m, int n, int k, class T>
void store_matrix_sync(T* destination, const fragment<accumulator, m, n, k, T>& matrix, unsigned leading,
                       layout_t layout, detail::Site site = detail::Site::here()) {
    detail::together(site);
    fragment<accumulator, m, n, k, T> copy = matrix;
    copy.for_each(tkjit::sim::running_lane(), [&](int row, int column, const T& element) {
        (layout == mem_row_major ? destination[row * leading + column] : destination[column * leading + row]) = element;
    });
}

/// Computes d = a b + c. Integer sums that overflow wrap, or with `saturates` become the nearest int.
template <int m, int n, int k, class Product, class LayoutA, class LayoutB, class D, class C>
void mma_sync(fragment<accumulator, m, n, k, D>& d, const fragment<matrix_a, m, n, k, Product, LayoutA>& a,
              const fragment<matrix_b, m, n, k, Product, LayoutB>& b, const fragment<accumulator, m, n, k, C>& c,
              bool saturates = false, detail::Site site = detail::Site::here()) {
    using Sum = typename detail::Element<Product>::Sum;
    struct Operands {
        fragment<matrix_a, m, n, k, Product, LayoutA> a;
        fragment<matrix_b, m, n, k, Product, LayoutB> b;
        fragment<accumulator, m, n, k, C> c;
        fragment<accumulator, m, n, k, D> d;
    } operands{a, b, c, {}};
    const auto multiply = [saturates](tkjit::sim::Lanes<Operands> lanes) {
        Sum rows[m][k], columns[n][k];
        std::conditional_t<std::is_same_v<Sum, unsigned>, long long, Sum> sums[m][n];
        lanes.for_each([&](int lane, Operands& own) {
            own.a.for_each(lane, [&](int row, int i, auto x) { rows[row][i] = detail::Element<Product>::value(x); });
            own.b.for_each(lane, [&](int i, int column, auto x) { columns[column][i] = detail::Element<Product>::value(x); });
            own.c.for_each(lane, [&](int row, int column, C x) {
                if constexpr (std::is_same_v<C, int>) sums[row][column] = x;
                else sums[row][column] = detail::Element<C>::value(x);
            });
        });
        for (int row = 0; row < m; row++) {
            for (int column = 0; column < n; column++) {
                for (int i = 0; i < k; i++) {
                    if constexpr (std::is_same_v<Sum, unsigned>) {
                        sums[row][column] += static_cast<int>(rows[row][i]) * static_cast<int>(columns[column][i]);
                    } else {
                        sums[row][column] += rows[row][i] * columns[column][i];
                    }
                }
            }
        }
        lanes.for_each([&](int lane, Operands& own) {
            own.d.for_each(lane, [&](int row, int column, D& x) {
                const auto sum = sums[row][column];
                if constexpr (!std::is_same_v<D, int>) x = detail::Element<D>::rounded(sum);
                else if (saturates) x = static_cast<int>(sum > INT_MAX ? INT_MAX : sum < INT_MIN ? INT_MIN : sum);
                else x = static_cast<int>(sum);
            });
        });
    };
    tkjit::sim::require_full_warp(tkjit::sim::Operation::mma, site);
    tkjit::sim::collective(~0u, tkjit::sim::Operation::mma, operands, multiply, site);
    d = operands.d;
}

}  // namespace nvcuda::wmma
