// Elementwise kernels over arrays: conversions and arithmetic of half and bfloat16, and intrinsics.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>

#define EXPORT extern "C" __attribute__((visibility("default")))

template <class Function>
__global__ void for_each_index(Function function, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) function(i);
}

// Runs `body` for each i below n.
#define ELEMENTWISE(name, parameters, body)                                                                  \
    EXPORT const char* run_##name(const unsigned*, size_t, parameters, int n) {                              \
        const auto function = [=](int i) { body; };                                                          \
        return tkjit::sim::launch(for_each_index<decltype(function)>, (n + 255) / 256, 256, 0, function, n); \
    }
#define LIST(...) __VA_ARGS__

ELEMENTWISE(portable_half_to_float, LIST(const unsigned short* x, float* y),
            y[i] = tkjit::sim::half_value_portable(x[i]))
ELEMENTWISE(portable_float_to_half, LIST(const float* x, unsigned short* y),
            y[i] = tkjit::sim::half_bits_portable(x[i]))

// The same kernels for both types. NAME is the type's part of CUDA's function names, TAG its name in the tests.
#define BOTH_TYPES(TAG, T, T2, NAME, NAME2)                                                                         \
    ELEMENTWISE(TAG##_to_float, LIST(const T* x, float* y), y[i] = __##NAME##2float(x[i]))                          \
    ELEMENTWISE(TAG##_to_int, LIST(const T* x, int* y), y[i] = x[i])                                                \
    ELEMENTWISE(TAG##_to_int_rn, LIST(const T* x, int* y), y[i] = __##NAME##2int_rn(x[i]))                          \
    ELEMENTWISE(TAG##_to_uchar, LIST(const T* x, unsigned char* y), y[i] = x[i])                                    \
    ELEMENTWISE(TAG##_from_float, LIST(const float* x, T* y), y[i] = __float2##NAME(x[i]))                          \
    ELEMENTWISE(TAG##_from_float_rz, LIST(const float* x, T* y), y[i] = __float2##NAME##_rz(x[i]))                  \
    ELEMENTWISE(TAG##_from_float_ru, LIST(const float* x, T* y), y[i] = __float2##NAME##_ru(x[i]))                  \
    ELEMENTWISE(TAG##_from_float_rd, LIST(const float* x, T* y), y[i] = __float2##NAME##_rd(x[i]))                  \
    ELEMENTWISE(TAG##_from_double, LIST(const double* x, T* y), y[i] = x[i])                                        \
    ELEMENTWISE(TAG##_from_long, LIST(const long long* x, T* y), y[i] = T(x[i]))                                    \
    ELEMENTWISE(TAG##_from_int, LIST(const int* x, T* y), y[i] = x[i])                                              \
    ELEMENTWISE(TAG##_add, LIST(const T* a, const T* b, T* y), y[i] = a[i] + b[i])                                  \
    ELEMENTWISE(TAG##_sub, LIST(const T* a, const T* b, T* y), y[i] = __hsub(a[i], b[i]))                           \
    ELEMENTWISE(TAG##_mul, LIST(const T* a, const T* b, T* y), y[i] = a[i]; y[i] *= b[i])                           \
    ELEMENTWISE(TAG##_div, LIST(const T* a, const T* b, T* y), y[i] = a[i] / b[i])                                  \
    ELEMENTWISE(TAG##_max, LIST(const T* a, const T* b, T* y), y[i] = __hmax(a[i], b[i]))                           \
    ELEMENTWISE(TAG##_min_nan, LIST(const T* a, const T* b, T* y), y[i] = __hmin_nan(a[i], b[i]))                   \
    ELEMENTWISE(TAG##_fma, LIST(const T* a, const T* b, const T* c, T* y), y[i] = __hfma(a[i], b[i], c[i]))         \
    ELEMENTWISE(TAG##_compare, LIST(const T* a, const T* b, int* y),                                                \
                y[i] = (a[i] < b[i]) | (a[i] <= b[i]) << 1 | (a[i] == b[i]) << 2 | (a[i] != b[i]) << 3 |            \
                       (a[i] > b[i]) << 4 | (a[i] >= b[i]) << 5 | __hne(a[i], b[i]) << 6 | __hltu(a[i], b[i]) << 7) \
    ELEMENTWISE(TAG##_pairs, LIST(const T2* a, const T2* b, T2* y, float2* f),                                      \
                const T2 swapped = __lowhigh2highlow(a[i]);                                                         \
                y[i] = __hfma2(swapped, b[i], __halves2##NAME2(__low2##NAME(b[i]), __high2##NAME(b[i])));           \
                f[i] = __##NAME2##2float2(__hadd2(a[i], __floats2##NAME2##_rn(1.0f, 2.0f))))

BOTH_TYPES(half, __half, __half2, half, half2)
BOTH_TYPES(bfloat16, __nv_bfloat16, __nv_bfloat162, bfloat16, bfloat162)

#define EXTREMA(TAG, T, smaller, larger) \
    ELEMENTWISE(TAG##_extrema, LIST(const T* a, const T* b, T* y), y[2 * i] = smaller; y[2 * i + 1] = larger)
EXTREMA(float, float, fminf(a[i], b[i]), fmaxf(a[i], b[i]))
EXTREMA(double, double, fmin(a[i], b[i]), fmax(a[i], b[i]))
EXTREMA(overloaded, float, min(a[i], b[i]), std::fmax(a[i], b[i]))
EXTREMA(half, __half, __hmin(a[i], b[i]), __hmax(a[i], b[i]))
EXTREMA(bfloat16, __nv_bfloat16, __hmin(a[i], b[i]), __hmax(a[i], b[i]))

ELEMENTWISE(cross_conversion, LIST(const __half* x, __nv_bfloat16* y, __half* z), y[i] = __nv_bfloat16(x[i]);
            z[i] = __half(y[i]))

ELEMENTWISE(float_to_integers, LIST(const float* x, int* rn, int* rz, int* ru, int* rd, unsigned* u, long long* ll),
            rn[i] = __float2int_rn(x[i]);
            rz[i] = __float2int_rz(x[i]); ru[i] = __float2int_ru(x[i]); rd[i] = __float2int_rd(x[i]);
            u[i] = __float2uint_rn(x[i]); ll[i] = __float2ll_rz(x[i]))

ELEMENTWISE(bits, LIST(const unsigned* x, unsigned* y), unsigned* row = y + 8 * i; row[0] = __popc(x[i]);
            row[1] = __clz(x[i]); row[2] = __ffs(x[i]); row[3] = __brev(x[i]);
            row[4] = __byte_perm(x[i], ~x[i], 0x7a30); row[5] = __umulhi(x[i], 0x9e3779b9u);
            row[6] = __funnelshift_l(x[i], 0x12345678u, 12);
            row[7] = __float_as_uint(__uint_as_float(x[i] & 0x7f7fffffu)))

// With contraction to a fused multiply-add, the result would be the rounding error of the product instead of 0.
ELEMENTWISE(no_contraction, LIST(const float* x, float* y),
            y[i] = __fsub_rn(__fmul_rn(x[i], x[i]), __fmul_rn(x[i], x[i])))

ELEMENTWISE(extrema, LIST(float* y), y[0] = min(3, 7u); y[1] = max(-1, 2); y[2] = max(2.5f, 1.5); y[3] = min(NAN, 1.0f);
            y[4] = max(5ll, 6ll); y[5] = __saturatef(NAN); y[6] = rsqrtf(4.0f); y[7] = max(-1, 7u))
