// Stacks, and the switch from one to another.
//
// On x86-64 a switch is twelve instructions; `ucontext`, for other machines and under TKJIT_SIM_UCONTEXT, makes a
// system call in every swap and is about eight times slower.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#if !defined(__x86_64__) && !defined(TKJIT_SIM_UCONTEXT)
#define TKJIT_SIM_UCONTEXT 1
#endif
#ifdef TKJIT_SIM_UCONTEXT
#include <ucontext.h>
#endif

namespace tkjit::sim {

// Reserved, not used: a fiber touches one or two pages of it. A CUDA thread may keep large arrays in local memory.
inline constexpr size_t stack_bytes = 256 << 10;
inline constexpr size_t guard_bytes = 4096;

/// One fiber's stack. Stays with its block state across blocks and launches.
struct Stack {
    char* lowest = nullptr;
    // Distance from the top to the first frame. Were it the same for all, the hot frames of all fibers would fall into
    // the same few sets of the cache.
    size_t stagger = 0;
    Stack* next_free = nullptr;
};

/// Where a fiber that does not run will go on.
struct Context {
#ifdef TKJIT_SIM_UCONTEXT
    ucontext_t registers;
#else
    void* stack_pointer = nullptr;
#endif
};

/// Maps a stack's memory. False if the machine has none left.
inline bool map_stack(Stack& stack, unsigned index) {
    void* memory =
        mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    stack.lowest = static_cast<char*>(memory);
    stack.stagger = index * 320 % 8192;
    // A guard page costs two of the process's 65530 mappings (vm.max_map_count). 64 workers with 1024 threads each
    // would use them all and leave none to the allocator, so that later stacks go without.
    static unsigned guarded = 0;
    if (__atomic_fetch_add(&guarded, 1u, __ATOMIC_RELAXED) < 12000) mprotect(stack.lowest, guard_bytes, PROT_NONE);
    return true;
}

#ifdef TKJIT_SIM_UCONTEXT

inline void switch_context(Context& from, Context& to) { swapcontext(&from.registers, &to.registers); }

inline void start_context(Context& context, const Stack& stack, void (*entry)()) {
    getcontext(&context.registers);
    context.registers.uc_stack.ss_sp = stack.lowest;
    context.registers.uc_stack.ss_size = stack_bytes - stack.stagger;
    context.registers.uc_link = nullptr;
    makecontext(&context.registers, entry, 0);
}

#else

// The callee-saved registers of the System V ABI, pushed on the old stack and popped from the new. Weak, so that a
// program of several files has one; hidden, so that each shared object calls its own without a PLT.
asm(R"(
    .pushsection .text.tkjit_sim_switch,"axG",@progbits,tkjit_sim_switch,comdat
    .weak tkjit_sim_switch
    .hidden tkjit_sim_switch
    .type tkjit_sim_switch, @function
tkjit_sim_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size tkjit_sim_switch, . - tkjit_sim_switch
    .popsection
)");
extern "C" __attribute__((visibility("hidden"))) void tkjit_sim_switch(void** save_stack_pointer, void* stack_pointer);

inline void switch_context(Context& from, Context& to) { tkjit_sim_switch(&from.stack_pointer, to.stack_pointer); }

inline void start_context(Context& context, const Stack& stack, void (*entry)()) {
    constexpr int saved_registers = 6;
    void** top = reinterpret_cast<void**>(stack.lowest + stack_bytes - stack.stagger - 64);
    *--top = nullptr;  // what `entry` would return to; also makes its frame 16-byte aligned, as after a call
    *--top = reinterpret_cast<void*>(entry);
    for (int i = 0; i < saved_registers; i++) *--top = nullptr;
    context.stack_pointer = top;
}

#endif

}  // namespace tkjit::sim
