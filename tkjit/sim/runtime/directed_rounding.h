// Arithmetic that is rounded towards zero, up or down, using the processor's own rounding modes.
#pragma once

#include "../detail/float_intrinsics.h"

#include <fenv.h>
#include <math.h>

namespace tkjit::sim {

/// Sets a rounding mode until the end of the scope.
class Rounding {
  public:
    explicit Rounding(int mode) : before_(fegetround()) { fesetround(mode); }
    ~Rounding() { fesetround(before_); }

    /// Returns the value, and makes sure that it is computed by this point. The compiler does not know about rounding
    /// modes, and would otherwise move arithmetic out of the scope.
    template <class T>
    static T settled(T value) {
        asm volatile("" : "+m"(value)::"memory");
        return value;
    }

  private:
    int before_;
};

template <class T>
inline T opaque(T value) {
    return Rounding::settled(value);
}

}  // namespace tkjit::sim

#define TKJIT_SIM_ROUNDED(type, name, parameters, expression, mode) \
    type name parameters {                                          \
        using tkjit::sim::opaque;                                   \
        const tkjit::sim::Rounding rounding(mode);                  \
        return rounding.settled<type>(expression);                  \
    }
#define TKJIT_SIM_DIRECTED(type, name, parameters, expression)                \
    TKJIT_SIM_ROUNDED(type, name##_rz, parameters, expression, FE_TOWARDZERO) \
    TKJIT_SIM_ROUNDED(type, name##_ru, parameters, expression, FE_UPWARD)     \
    TKJIT_SIM_ROUNDED(type, name##_rd, parameters, expression, FE_DOWNWARD)
#include "../detail/directed_rounding.inc"
#undef TKJIT_SIM_DIRECTED
#undef TKJIT_SIM_ROUNDED
