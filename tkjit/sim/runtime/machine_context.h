// Reads registers from a signal context, and emulates a GPU's result for one division instruction.
#pragma once

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

namespace tkjit::sim {

/// The interrupted thread's registers. The thread continues with any values that are written to them.
class MachineContext {
  public:
    explicit MachineContext(void* context) : registers_(static_cast<ucontext_t*>(context)->uc_mcontext) {}

#if defined(__x86_64__)
    static constexpr bool is_known = true;

    uintptr_t instruction() const { return static_cast<uintptr_t>(registers_.gregs[REG_RIP]); }
    uintptr_t stack_pointer() const { return static_cast<uintptr_t>(registers_.gregs[REG_RSP]); }
    /// Returns the return address of the last function called, which must not have run its first instruction yet.
    uintptr_t return_address() const { return *reinterpret_cast<const uintptr_t*>(stack_pointer()); }
    /// Returns whether a faulting memory access is a write.
    bool is_write() const { return registers_.gregs[REG_ERR] & 2; }

    /// Makes the thread continue with `function` on an empty stack.
    void go_on_with(void (*function)(), char* top_of_stack) {
        constexpr greg_t direction_flag = 1 << 10;  // clear when a function begins
        const auto top = reinterpret_cast<uintptr_t>(top_of_stack) & ~uintptr_t{15};
        registers_.gregs[REG_RSP] = static_cast<greg_t>(top - sizeof(void*));  // as after a call
        registers_.gregs[REG_RIP] = reinterpret_cast<greg_t>(function);
        registers_.gregs[REG_EFL] &= ~direction_flag;
    }

    bool skip_overflowing_division();
    bool at_undefined_instruction() const {
        const auto* const code = reinterpret_cast<const unsigned char*>(instruction());
        return code[0] == 0x0f && code[1] == 0x0b;  // ud2
    }

  private:
    uintptr_t read(unsigned number) const {
        // in the order in which instructions number them
        static constexpr int names[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                        REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
        return static_cast<uintptr_t>(registers_.gregs[names[number]]);
    }
#elif defined(__aarch64__)
    static constexpr bool is_known = true;

    uintptr_t instruction() const { return registers_.pc; }
    uintptr_t stack_pointer() const { return registers_.sp; }
    uintptr_t return_address() const { return registers_.regs[30]; }
    bool is_write() const { return false; }  // not reported
    void go_on_with(void (*function)(), char* top_of_stack) {
        registers_.sp = reinterpret_cast<uintptr_t>(top_of_stack) & ~uintptr_t{15};
        registers_.pc = reinterpret_cast<uintptr_t>(function);
    }
    bool skip_overflowing_division() { return false; }  // its divisions never trap
    bool at_undefined_instruction() const { return false; }

  private:
#else
    static constexpr bool is_known = false;

    uintptr_t instruction() const { return 0; }
    uintptr_t stack_pointer() const { return 0; }
    uintptr_t return_address() const { return 0; }
    bool is_write() const { return false; }
    void go_on_with(void (*)(), char*) {}
    bool skip_overflowing_division() { return false; }
    bool at_undefined_instruction() const { return false; }

  private:
#endif
    mcontext_t& registers_;
};

#ifdef __x86_64__
/// Emulates the division of the smallest integer by -1, which makes the processor trap. As on a GPU, the quotient is
/// the smallest integer, and the remainder is 0. Returns false if the instruction is not such a division.
///
/// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, 2.1 (formats) and IDIV.
inline bool MachineContext::skip_overflowing_division() {
    const auto* const begin = reinterpret_cast<const unsigned char*>(instruction());
    const unsigned char* next = begin;
    bool is_16_bit = false;
    for (; *next == 0x66 || *next == 0x2e || *next == 0x3e; next++) is_16_bit |= *next == 0x66;
    const unsigned rex = (*next & 0xf0) == 0x40 ? *next++ : 0;
    const unsigned operation = *next++;
    const unsigned form = *next++, mode = form >> 6, low = form & 7;
    if (operation != 0xf7 || (form >> 3 & 7) != 7) return false;  // C++ never divides 8-bit integers: they are promoted
    const unsigned bits = rex & 8 ? 64 : is_16_bit ? 16 : 32;

    uintptr_t value = 0;
    if (mode == 3) {
        value = read(low | (rex & 1) << 3);
    } else {
        uintptr_t address = 0;
        bool has_wide_offset = mode == 2, is_relative = false;
        if (low == 4) {
            const unsigned scaled = *next++, index = (scaled >> 3 & 7) | (rex & 2) << 2;
            if (index != 4) address += read(index) << (scaled >> 6);
            if ((scaled & 7) == 5 && mode == 0) has_wide_offset = true;
            else address += read((scaled & 7) | (rex & 1) << 3);
        } else if (low == 5 && mode == 0) {
            has_wide_offset = is_relative = true;
        } else {
            address += read(low | (rex & 1) << 3);
        }
        if (mode == 1) {
            address += static_cast<uintptr_t>(static_cast<signed char>(*next++));
        } else if (has_wide_offset) {
            int offset;
            memcpy(&offset, next, sizeof offset);
            next += sizeof offset;
            address += static_cast<uintptr_t>(static_cast<intptr_t>(offset));
        }
        if (is_relative) address += reinterpret_cast<uintptr_t>(next);
        memcpy(&value, reinterpret_cast<const void*>(address), bits / 8);  // the instruction has just read it
    }

    const unsigned unused = 64 - bits;
    const uintptr_t least = uintptr_t{1} << (bits - 1);
    const auto low_part = static_cast<uintptr_t>(registers_.gregs[REG_RAX]) << unused >> unused;
    const auto high_part = static_cast<uintptr_t>(registers_.gregs[REG_RDX]) << unused;
    if (value << unused != ~uintptr_t{0} << unused || low_part != least || high_part != ~uintptr_t{0} << unused) return false;
    // the quotient's bits are already in place; a write of 32 bits clears those above them
    if (bits == 32) registers_.gregs[REG_RAX] = static_cast<greg_t>(least);
    registers_.gregs[REG_RDX] = bits == 16 ? registers_.gregs[REG_RDX] & ~greg_t{0xffff} : 0;
    registers_.gregs[REG_RIP] = reinterpret_cast<greg_t>(next);
    return true;
}
#endif

}  // namespace tkjit::sim
