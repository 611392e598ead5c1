// The bodies of the functions that detail/math_functions.h declares. They compute in double; the versions for float
// round that result to float.
#pragma once

#include "../detail/integer_intrinsics.h"
#include "../detail/math_functions.h"

#include <math.h>

namespace tkjit::sim {

constexpr double half_root_of_pi = 0.88622692545275801;

/// Takes one step of Halley's method to invert erf or erfc, whose second derivative is -2 z times the first. `newton`
/// is Newton's step: the error divided by the derivative.
inline double halley(double z, double newton) { return z - newton / (1 + z * newton); }

/// The distance from x to the nearest multiple of 1/2, and which multiple that is, modulo 4. Both are exact.
struct HalfTurns {
    double rest;
    int count;

    explicit HalfTurns(double x) {
        const double within_a_turn = fmod(x, 2.0);
        const double nearest = rint(2.0 * within_a_turn);
        rest = within_a_turn - 0.5 * nearest;
        count = static_cast<int>(nearest) & 3;
    }
};

}  // namespace tkjit::sim

double sinpi(double x) {
    if (!isfinite(x)) return x - x;
    const tkjit::sim::HalfTurns turns(x);
    if (turns.rest == 0 && turns.count % 2 == 0) return copysign(0.0, x);
    const double value = turns.count % 2 ? cos(M_PI * turns.rest) : sin(M_PI * turns.rest);
    return turns.count >= 2 ? -value : value;
}

double cospi(double x) {
    if (!isfinite(x)) return x - x;
    const tkjit::sim::HalfTurns turns(x);
    if (turns.rest == 0 && turns.count % 2) return 0.0;
    const double value = turns.count % 2 ? sin(M_PI * turns.rest) : cos(M_PI * turns.rest);
    return turns.count == 1 || turns.count == 2 ? -value : value;
}

double erfinv(double x) {
    const double magnitude = fabs(x);
    if (!(magnitude < 1)) return magnitude == 1 ? copysign(INFINITY, x) : NAN;
    if (magnitude > 0.5) return copysign(erfcinv(1 - magnitude), x);
    double z = tkjit::sim::half_root_of_pi * x * (1 + M_PI / 12 * x * x);  // the series' first terms
    for (int i = 0; i < 3; i++) z = tkjit::sim::halley(z, (erf(z) - x) * tkjit::sim::half_root_of_pi * exp(z * z));
    return z;
}

double erfcinv(double x) {
    if (!(x > 0 && x < 2)) return x == 0 ? INFINITY : x == 2 ? -INFINITY : NAN;
    if (x > 1.5) return -erfcinv(2 - x);
    if (x >= 0.5) return erfinv(1 - x);
    // Abramowitz and Stegun, 26.2.23: the quantile of x / 2, to 4.5e-4.
    const double t = sqrt(-2 * log(x / 2));
    const double quantile =
        t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    double z = quantile * M_SQRT1_2;
    // Uses the error relative to x, because exp(z * z) alone would overflow for the smallest x.
    for (int i = 0; i < 3; i++) {
        z = tkjit::sim::halley(z, (1 - erfc(z) / x) * tkjit::sim::half_root_of_pi * exp(z * z + log(x)));
    }
    return z;
}

double normcdfinv(double x) { return -M_SQRT2 * erfcinv(2 * x); }

double normcdf(double x) {
    constexpr double low_root_of_half = -4.833646656726457e-17;  // sqrt(0.5) - M_SQRT1_2
    const double z = -x * M_SQRT1_2;
    if (!isfinite(z) || z > 28) return 0.5 * erfc(z);
    const double rest = fma(-x, M_SQRT1_2, -z) - x * low_root_of_half;
    return 0.5 * (erfc(z) - rest * exp(-z * z) / tkjit::sim::half_root_of_pi);
}

double erfcx(double x) {
    if (x < 10) {
        const double square = x * x;
        return exp(square) * (1 + fma(x, x, -square)) * erfc(x);
    }
    double term = 1, sum = 1;  // the asymptotic series, whose terms shrink until the 100th
    for (int i = 1; i < 20; i++) {
        term *= -(2 * i - 1) / (2 * x * x);
        sum += term;
    }
    return sum / (2 * tkjit::sim::half_root_of_pi * x);
}

namespace tkjit::sim {

/// Computes the modified Bessel function of order 0 or 1 from its series, whose terms all have the same sign. It uses
/// long double, because there are many terms.
inline double bessel_i(int order, double x) {
    if (!isfinite(x)) return order == 0 ? fabs(x) : x;
    long double term = order == 0 ? 1 : static_cast<long double>(x) / 2, sum = term;
    for (int i = 1; fabsl(term) > 1e-20L * fabsl(sum); i++) {
        term *= static_cast<long double>(x) * x / (4.0L * i * (i + order));
        sum += term;
    }
    return static_cast<double>(sum);
}

}  // namespace tkjit::sim

double cyl_bessel_i0(double x) { return tkjit::sim::bessel_i(0, x); }
double cyl_bessel_i1(double x) { return tkjit::sim::bessel_i(1, x); }

#define TKJIT_SIM_FUNCTION(name) \
    float name##f(float x) { return static_cast<float>(name(static_cast<double>(x))); }
TKJIT_SIM_FUNCTIONS(TKJIT_SIM_FUNCTION)
#undef TKJIT_SIM_FUNCTION

namespace tkjit::sim {

/// Uses long double, in which the squares of doubles cannot overflow. An infinity takes precedence over a NaN, as in
/// hypot.
template <class T>
inline T root_of_squares(int count, const T* x) {
    long double sum = 0;
    for (int i = 0; i < count; i++) {
        if (isinf(x[i])) return INFINITY;
        sum += static_cast<long double>(x[i]) * x[i];
    }
    return static_cast<T>(sqrtl(sum));
}

}  // namespace tkjit::sim

double norm(int count, const double* x) { return tkjit::sim::root_of_squares(count, x); }
float normf(int count, const float* x) { return tkjit::sim::root_of_squares(count, x); }

namespace tkjit::sim {

/// Returns the smaller or the larger operand. If one is a NaN, even a signalling one, returns the other operand; -0
/// counts as less than +0. Source: PTX ISA, "min".
template <class T>
inline T extremum(T a, T b, bool smallest, T nan) {
    if (a != a || b != b) return a == a ? a : b == b ? b : nan;
    if (a == b) return signbit(a) == smallest ? a : b;
    return (a < b) == smallest ? a : b;
}

}  // namespace tkjit::sim

#define TKJIT_SIM_EXTREMUM(type, name, smallest, nan)                                       \
    extern "C" type name(type a, type b) noexcept {                                         \
        return tkjit::sim::extremum<type>(a, b, smallest, tkjit::sim::bit_cast<type>(nan)); \
    }
TKJIT_SIM_EXTREMUM(float, fminf, true, 0x7fffffffu)
TKJIT_SIM_EXTREMUM(float, fmaxf, false, 0x7fffffffu)
TKJIT_SIM_EXTREMUM(double, fmin, true, 0x7fffffffffffffffull)
TKJIT_SIM_EXTREMUM(double, fmax, false, 0x7fffffffffffffffull)
#undef TKJIT_SIM_EXTREMUM
