// The simulator's `cuComplex.h`: complex numbers as pairs, with functions for host and device.
#pragma once

#include "cuda_runtime.h"

#include <cmath>

using cuFloatComplex = float2;
using cuDoubleComplex = double2;
using cuComplex = cuFloatComplex;

#define TKJIT_COMPLEX(type, real, suffix, make)                                                                       \
    inline type make(real re, real im) { return type{re, im}; }                                                       \
    inline real cuCreal##suffix(type x) { return x.x; }                                                               \
    inline real cuCimag##suffix(type x) { return x.y; }                                                               \
    inline type cuConj##suffix(type x) { return type{x.x, -x.y}; }                                                    \
    inline type cuCadd##suffix(type x, type y) { return type{x.x + y.x, x.y + y.y}; }                                 \
    inline type cuCsub##suffix(type x, type y) { return type{x.x - y.x, x.y - y.y}; }                                 \
    inline type cuCmul##suffix(type x, type y) { return type{x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x}; }         \
    /* scaled, so that the divisor's square does not overflow */                                                      \
    inline type cuCdiv##suffix(type x, type y) {                                                                      \
        const real scale = 1 / (std::abs(y.x) + std::abs(y.y));                                                       \
        const type a{x.x * scale, x.y * scale}, b{y.x * scale, y.y * scale};                                          \
        const real square = 1 / (b.x * b.x + b.y * b.y);                                                              \
        return type{(a.x * b.x + a.y * b.y) * square, (a.y * b.x - a.x * b.y) * square};                              \
    }                                                                                                                 \
    inline real cuCabs##suffix(type x) { return std::hypot(x.x, x.y); }                                               \
    /* x * y + z */                                                                                                   \
    inline type cuCfma##suffix(type x, type y, type z) {                                                              \
        return type{std::fma(x.x, y.x, std::fma(-x.y, y.y, z.x)), std::fma(x.x, y.y, std::fma(x.y, y.x, z.y))};       \
    }
TKJIT_COMPLEX(cuFloatComplex, float, f, make_cuFloatComplex)
TKJIT_COMPLEX(cuDoubleComplex, double, , make_cuDoubleComplex)
#undef TKJIT_COMPLEX

inline cuComplex make_cuComplex(float re, float im) { return make_cuFloatComplex(re, im); }
inline cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex x) { return {x.x, x.y}; }
inline cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex x) { return {float(x.x), float(x.y)}; }
