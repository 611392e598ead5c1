// Products with nvcuda::wmma, for tests/sim/test_wmma.py and test_nvcc_cub.py, where a is m x k.
#include <mma.h>

#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

using namespace nvcuda;

template <class T>
__device__ T doubled(T x) {
    return x + x;
}

// Computes c += 3 a b. A is row-major or column-major, B is the opposite, and C is like A. The product is added once by
// mma_sync, and twice through the elements of a fragment.
template <int m, int n, int k, class T, class Memory, class Sum, bool a_by_rows>
__global__ void multiply(const Memory* a, const Memory* b, Sum* c) {
    using A = wmma::row_major;
    using B = wmma::col_major;
    wmma::fragment<wmma::matrix_a, m, n, k, T, std::conditional_t<a_by_rows, A, B>> fa;
    wmma::fragment<wmma::matrix_b, m, n, k, T, std::conditional_t<a_by_rows, B, A>> fb;
    wmma::fragment<wmma::accumulator, m, n, k, Sum> sum, zero;
    const auto layout = a_by_rows ? wmma::mem_row_major : wmma::mem_col_major;
    wmma::load_matrix_sync(fa, a, a_by_rows ? k : m);
    wmma::load_matrix_sync(fb, b, a_by_rows ? k : n);
    wmma::load_matrix_sync(sum, c, a_by_rows ? n : m, layout);
    wmma::fill_fragment(zero, Sum(0));
    wmma::mma_sync(zero, fa, fb, zero);
    wmma::mma_sync(sum, fa, fb, sum);
    for (int i = 0; i < sum.num_elements; i++) sum.x[i] = sum.x[i] + doubled(zero.x[i]);
    wmma::store_matrix_sync(c, sum, a_by_rows ? n : m, layout);
}

#ifdef TKJIT_SIM
#define CASE(name, m, n, k, T, Memory, Sum, by_rows)                                                                  \
    extern "C" __attribute__((visibility("default"))) const char* run_##name##_##m##_##by_rows(                       \
        const unsigned* dims, size_t, const Memory* a, const Memory* b, Sum* c) {                                     \
        return tkjit::sim::launch(multiply<m, n, k, T, Memory, Sum, by_rows>, dim3(1), dim3(dims[3]), 0, a, b, c);    \
    }
#else
#define CASE(name, m, n, k, T, Memory, Sum, by_rows) \
    template __global__ void multiply<m, n, k, T, Memory, Sum, by_rows>(const Memory*, const Memory*, Sum*);
#endif
#define BOTH(name, m, n, k, ...)             \
    CASE(name, m, n, k, __VA_ARGS__, 0)      \
    CASE(name, m, n, k, __VA_ARGS__, 1)
#define SHAPES(name, ...)              \
    BOTH(name, 16, 16, 16, __VA_ARGS__) \
    BOTH(name, 32, 8, 16, __VA_ARGS__)  \
    BOTH(name, 8, 32, 16, __VA_ARGS__)
SHAPES(half, __half, __half, float)
SHAPES(half_to_half, __half, __half, __half)
SHAPES(bfloat16, __nv_bfloat16, __nv_bfloat16, float)
SHAPES(int8, signed char, signed char, int)
SHAPES(uint8, unsigned char, unsigned char, int)
BOTH(tf32, 16, 16, 8, wmma::precision::tf32, float, float)
BOTH(float64, 8, 8, 4, double, double, double)
