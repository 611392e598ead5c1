// The mathematical functions that CUDA has and the C library lacks. Because they are long and rarely used, their bodies
// are compiled only once, in runtime/math_functions.h.
#pragma once

#include <math.h>

// If one operand is a signalling NaN, the C library returns NaN, but a device returns the other operand. So these
// functions get different assembler names, which the compiler then uses for std::fmin as well.
extern "C" {
float fminf(float a, float b) noexcept __asm__("tkjit_sim_fminf");
float fmaxf(float a, float b) noexcept __asm__("tkjit_sim_fmaxf");
double fmin(double a, double b) noexcept __asm__("tkjit_sim_fmin");
double fmax(double a, double b) noexcept __asm__("tkjit_sim_fmax");
}

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
inline double rcbrt(double x) { return static_cast<double>(1 / cbrtl(x)); }  // glibc's cbrt is off by four ulps
inline float fdividef(float a, float b) { return a / b; }
inline double fdivide(double a, double b) { return a / b; }

// `sinpi(x)` is the sine of pi times x. It is exact if the result is 0, 1 or -1.
#define TKJIT_SIM_FUNCTIONS(each) \
    each(sinpi) each(cospi) each(normcdf) each(normcdfinv) each(erfinv) each(erfcinv) each(erfcx) each(cyl_bessel_i0) \
    each(cyl_bessel_i1)
#define TKJIT_SIM_FUNCTION(name) \
    double name(double x);       \
    float name##f(float x);
TKJIT_SIM_FUNCTIONS(TKJIT_SIM_FUNCTION)
#undef TKJIT_SIM_FUNCTION

inline void sincospi(double x, double* sine, double* cosine) { *sine = sinpi(x), *cosine = cospi(x); }
inline void sincospif(float x, float* sine, float* cosine) { *sine = sinpif(x), *cosine = cospif(x); }

// These compute the root of a sum of squares, and its reciprocal, without intermediate overflow or underflow.
double norm(int count, const double* x);
float normf(int count, const float* x);
inline double rnorm(int count, const double* x) { return 1.0 / norm(count, x); }
inline float rnormf(int count, const float* x) { return 1.0f / normf(count, x); }

#define TKJIT_SIM_NORM(type, suffix)                                                            \
    inline type norm3d##suffix(type a, type b, type c) {                                        \
        const type all[] = {a, b, c};                                                           \
        return norm##suffix(3, all);                                                            \
    }                                                                                           \
    inline type norm4d##suffix(type a, type b, type c, type d) {                                \
        const type all[] = {a, b, c, d};                                                        \
        return norm##suffix(4, all);                                                            \
    }                                                                                           \
    inline type rhypot##suffix(type a, type b) { return 1 / hypot##suffix(a, b); }              \
    inline type rnorm3d##suffix(type a, type b, type c) { return 1 / norm3d##suffix(a, b, c); } \
    inline type rnorm4d##suffix(type a, type b, type c, type d) { return 1 / norm4d##suffix(a, b, c, d); }
TKJIT_SIM_NORM(double, )
TKJIT_SIM_NORM(float, f)
#undef TKJIT_SIM_NORM
