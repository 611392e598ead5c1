// The expression language of a spec, on the C++ side: 64-bit integers that remember an overflow.
//
// tkjit/spec/expr.py evaluates the same text in Python. Both round division down, and both treat overflow and division by
// zero as errors: here the value becomes invalid and stays so, like a NaN, and its user checks `valid()` once.
#pragma once

#include <cstdint>

namespace tkjit {

class Int {
public:
    constexpr Int(int64_t value) : value_(value) {}

    constexpr int64_t value() const { return value_; }
    constexpr bool valid() const { return valid_; }

    friend constexpr Int operator+(Int a, Int b) {
        int64_t result = 0;
        const bool overflow = __builtin_add_overflow(a.value_, b.value_, &result);
        return checked(overflow, result, a, b);
    }
    friend constexpr Int operator-(Int a, Int b) {
        int64_t result = 0;
        const bool overflow = __builtin_sub_overflow(a.value_, b.value_, &result);
        return checked(overflow, result, a, b);
    }
    friend constexpr Int operator*(Int a, Int b) {
        int64_t result = 0;
        const bool overflow = __builtin_mul_overflow(a.value_, b.value_, &result);
        return checked(overflow, result, a, b);
    }
    friend constexpr Int operator-(Int a) { return Int(0) - a; }

    // Rounds down, like Python's //.
    friend constexpr Int operator/(Int a, Int b) {
        if (b.value_ == 0 || (b.value_ == -1 && a.value_ == INT64_MIN)) return checked(true, 0, a, b);
        const int64_t quotient = a.value_ / b.value_;
        const bool inexact = a.value_ % b.value_ != 0;
        return checked(false, quotient - (inexact && (a.value_ < 0) != (b.value_ < 0)), a, b);
    }
    // Has the sign of the divisor, like Python's %.
    friend constexpr Int operator%(Int a, Int b) {
        if (b.value_ == 0) return checked(true, 0, a, b);
        if (b.value_ == -1) return checked(false, 0, a, b);
        const int64_t remainder = a.value_ % b.value_;
        return checked(false, remainder != 0 && (remainder < 0) != (b.value_ < 0) ? remainder + b.value_ : remainder, a, b);
    }

    friend constexpr Int operator<(Int a, Int b) { return checked(false, a.value_ < b.value_, a, b); }
    friend constexpr Int operator<=(Int a, Int b) { return checked(false, a.value_ <= b.value_, a, b); }
    friend constexpr Int operator>(Int a, Int b) { return checked(false, a.value_ > b.value_, a, b); }
    friend constexpr Int operator>=(Int a, Int b) { return checked(false, a.value_ >= b.value_, a, b); }
    friend constexpr Int operator==(Int a, Int b) { return checked(false, a.value_ == b.value_, a, b); }
    friend constexpr Int operator!=(Int a, Int b) { return checked(false, a.value_ != b.value_, a, b); }

    friend constexpr Int min(Int a, Int b) { return checked(false, a.value_ < b.value_ ? a.value_ : b.value_, a, b); }
    friend constexpr Int max(Int a, Int b) { return checked(false, a.value_ > b.value_ ? a.value_ : b.value_, a, b); }
    template <class... More>
    friend constexpr Int min(Int a, Int b, Int c, More... more) { return min(min(a, b), c, more...); }
    template <class... More>
    friend constexpr Int max(Int a, Int b, Int c, More... more) { return max(max(a, b), c, more...); }

    friend constexpr Int cdiv(Int a, Int b) { return -(-a / b); }

private:
    static constexpr Int checked(bool failed, int64_t value, Int a, Int b) {
        Int result(value);
        result.valid_ = !failed && a.valid_ && b.valid_;
        return result;
    }

    int64_t value_;
    bool valid_ = true;
};

}  // namespace tkjit
