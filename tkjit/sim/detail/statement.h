// An `asm` statement that runs. The race detector finds the calls that led to it by its address in the machine code.
#pragma once

namespace tkjit::sim {

#ifdef TKJIT_SIM_RACE
struct Statement {
    Statement();
    ~Statement();
};
#else
struct Statement {};
#endif

}  // namespace tkjit::sim
