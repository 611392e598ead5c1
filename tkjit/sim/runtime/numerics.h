// Sums products as a tensor core does.
#pragma once

#include "../detail/numerics.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace tkjit::sim {

bool numerics_are_hardwares() {
    static const bool is_asked_for = [] {
        const char* const asked = getenv("TKJIT_SIM_NUMERICS");
        return asked && strcmp(asked, "hardware") == 0;
    }();
    return is_asked_for;
}

/// A number as a significand below 2 and an exponent that is at least that of the smallest normal number.
struct Parts {
    double significand;
    int exponent;
};

inline Parts parts_of(double number, int least) {
    if (number == 0) return {0, least_of_float};
    int exponent;
    const double significand = 2 * frexp(number, &exponent);
    exponent--;
    return exponent < least ? Parts{ldexp(significand, exponent - least), least} : Parts{significand, exponent};
}

float FusedSum::operator()(const float* a, const float* b, unsigned b_step, unsigned k, float c) const {
    constexpr unsigned most_terms = 33;
    double plain = c;
    for (unsigned i = 0; i < k; i++) plain += static_cast<double>(a[i]) * b[i * b_step];
    if (plain != plain) return __builtin_bit_cast(float, 0x7fffffffu);
    if (isinf(plain)) return static_cast<float>(plain);

    Parts terms[most_terms];
    terms[0] = parts_of(c, least_c);
    int largest = terms[0].exponent;
    for (unsigned i = 0; i < k; i++) {
        const Parts x = parts_of(a[i], least_a), y = parts_of(b[i * b_step], least_b);
        terms[i + 1] = {x.significand * y.significand, x.exponent + y.exponent};  // up to 4, not normalized
        if (terms[i + 1].exponent > largest) largest = terms[i + 1].exponent;
    }
    int64_t sum = 0;
    for (unsigned i = 0; i <= k; i++) {
        sum += static_cast<int64_t>(ldexp(terms[i].significand, fraction_bits + terms[i].exponent - largest));
    }
    const Parts whole = parts_of(ldexp(static_cast<double>(sum), largest - fraction_bits), least_sum);
    const double scaled = ldexp(whole.significand, result_bits);
    const double kept = rounds ? nearbyint(scaled) : trunc(scaled);
    return static_cast<float>(ldexp(kept, whole.exponent - result_bits));
}

}  // namespace tkjit::sim
