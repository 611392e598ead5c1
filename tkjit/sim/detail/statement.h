// An `asm` statement that runs. The race detector finds the calls that led to it by its address in the machine code.
#pragma once

namespace tkjit::sim {

#ifdef TKJIT_SIM_RACE
void begin_statement();
void end_statement();

/// Is of a literal type, because an `asm` statement may be in a constexpr function.
struct Statement {
    __attribute__((always_inline)) constexpr Statement() {
        if (!__builtin_is_constant_evaluated()) begin_statement();
    }
    __attribute__((always_inline)) constexpr ~Statement() {
        if (!__builtin_is_constant_evaluated()) end_statement();
    }
};
#else
struct Statement {};
#endif

}  // namespace tkjit::sim
