// Registers that an asynchronous instruction uses until the thread has waited for it. Only the race detector records them.
#pragma once

#include <stddef.h>

namespace tkjit::sim {

/// What an asynchronous instruction does with registers: it adds to the sums of a product, it reads elements of A, or it
/// writes what `tcgen05.ld` loads.
enum class RegisterUse : unsigned char { sums, a, loaded };

#ifdef TKJIT_SIM_RACE
/// Records registers that the thread's last product, or its last load from tensor memory, uses until it is waited for.
void note_registers(const void* registers, size_t bytes, RegisterUse use);

/// An `asm` statement with such an instruction. It copies the registers of its operands, which is no access by the kernel.
struct AsynchronousStatement {
    AsynchronousStatement();
    ~AsynchronousStatement();
};
#else
inline void note_registers(const void*, size_t, RegisterUse) {}
struct AsynchronousStatement {};
#endif

}  // namespace tkjit::sim
