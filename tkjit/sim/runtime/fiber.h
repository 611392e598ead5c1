// Stacks, and the switch from one stack to another.
//
// On x86-64 a switch is twelve instructions. `ucontext`, which is used on other machines and with TKJIT_SIM_UCONTEXT,
// makes a system call in every swap and is about eight times slower.
#pragma once

#include "../detail/block.h"
#include "pool.h"

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

// The memory of a stack is only reserved: a fiber usually touches one or two pages of it. A CUDA thread may keep 512
// KiB in local memory.
//
// Stacks begin at different offsets, because variables at the same offset in all of them would compete for a few sets of the
// CPU's caches. With offsets up to 128 KiB instead of 8 KiB, gemm of 512^3 takes 0.7 to 0.95 of the time on an AMD EPYC.
inline constexpr size_t most_stagger = 128 << 10;
inline constexpr size_t stack_bytes = (1 << 20) + most_stagger;
inline constexpr size_t guard_bytes = 4096;
// A guard page that is a separate mapping costs two of the process's 65530 mappings (vm.max_map_count). 64 workers with
// 1024 threads each would use them all and leave none for the allocator, so the stacks beyond this number have no
// guard.
inline constexpr unsigned most_guard_mappings = 12000;
#ifdef MADV_GUARD_INSTALL
inline constexpr int install_guard = MADV_GUARD_INSTALL;
#else
inline constexpr int install_guard = 102;  // the C library's headers may be older than the kernel
#endif

/// Turns the lowest page into a guard, so that a stack overflow faults. Since Linux 6.13, a mark in the page table is
/// enough.
inline Guard guard_stack(char* lowest) {
    if (madvise(lowest, guard_bytes, install_guard) == 0) return Guard::mark;
    if (__atomic_fetch_add(&pool().guard_mappings, 1u, __ATOMIC_RELAXED) < most_guard_mappings &&
        mprotect(lowest, guard_bytes, PROT_NONE) == 0) {
        return Guard::mapping;
    }
    __atomic_fetch_sub(&pool().guard_mappings, 1u, __ATOMIC_RELAXED);
    return Guard::none;
}

/// Maps memory for `count` of a block's stacks. Returns false if the machine has none left.
inline bool map_stacks(Block& block, unsigned count) {
    void* const memory = mmap(nullptr, count * stack_bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    Stack* const stacks = &block.stacks[block.mapped_stacks];
    for (unsigned i = 0; i < count; i++) stacks[i].lowest = static_cast<char*>(memory) + i * stack_bytes;
    stacks[0].mapped_with_it = count;
    block.mapped_stacks += count;
    return true;
}

/// Returns the next of a block's stacks, or null if there is no memory. Most blocks need only one stack. But if threads
/// wait, each of them needs its own, and mapping each stack separately would take most of a launch's time.
inline Stack* add_stack(Block& block) {
    constexpr unsigned most_at_once = 64;
    const unsigned index = block.stack_count, missing = block.thread_count - index;
    const unsigned wanted = missing < most_at_once ? missing : most_at_once;
    if (index == block.mapped_stacks && (index == 0 || !map_stacks(block, wanted)) && !map_stacks(block, 1)) return nullptr;
    Stack& stack = block.stacks[index];
    stack.stagger = index * 1088 % most_stagger;
    stack.guard = guard_stack(stack.lowest);
    if (stack.guard == Guard::none) block.lacks_guards = true;
    block.stack_count++;
    return &stack;
}

inline void unmap_stacks(const Block& block) {
    for (unsigned i = 0; i < block.stack_count; i++) {
        if (block.stacks[i].guard != Guard::mapping) continue;
        __atomic_fetch_sub(&pool().guard_mappings, 1u, __ATOMIC_RELAXED);
    }
    for (unsigned i = 0; i < block.mapped_stacks; i += block.stacks[i].mapped_with_it) {
        munmap(block.stacks[i].lowest, block.stacks[i].mapped_with_it * stack_bytes);
    }
}

// ---- informs AddressSanitizer which stack the code runs on, and when a stack is reused

#ifdef TKJIT_SIM_MEMORY
extern "C" {
void __sanitizer_start_switch_fiber(void** fake_stack_save, const void* lowest, size_t bytes);
void __sanitizer_finish_switch_fiber(void* fake_stack_save, const void** lowest_old, size_t* bytes_old);
void __asan_unpoison_memory_region(const volatile void* address, size_t bytes);
}

/// The stack of the OS thread that runs blocks.
inline Stack host_stack;
inline size_t host_stack_bytes;

inline void leave_stack(Context& from, const Stack* to) {
    const Stack& target = to ? *to : host_stack;
    __sanitizer_start_switch_fiber(&from.fake_stack, target.lowest, to ? stack_bytes : host_stack_bytes);
}
inline void enter_stack(Context* self) {
    __sanitizer_finish_switch_fiber(self ? self->fake_stack : nullptr, nullptr, nullptr);
}
inline void renew_stack(const Stack& stack) {
    __asan_unpoison_memory_region(stack.lowest + guard_bytes, stack_bytes - guard_bytes);
}
#else
inline void leave_stack(Context&, const Stack*) {}
inline void enter_stack(Context*) {}
inline void renew_stack(const Stack&) {}
#endif

// ---- the switch

#ifdef TKJIT_SIM_UCONTEXT

inline void swap_stacks(Context& from, Context& to) {
    ucontext_t registers;  // stays in place while the fiber does not run
    from.saved = &registers;
    swapcontext(&registers, static_cast<ucontext_t*>(to.saved));
}

inline void start_context(Context& context, const Stack& stack, void (*entry)()) {
    constexpr size_t room = (sizeof(ucontext_t) + 63) / 64 * 64;
    char* const top = stack.lowest + stack_bytes - stack.stagger - room;
    auto* const registers = reinterpret_cast<ucontext_t*>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t{63});
    getcontext(registers);
    registers->uc_stack.ss_sp = stack.lowest;
    registers->uc_stack.ss_size = static_cast<size_t>(reinterpret_cast<char*>(registers) - stack.lowest);
    registers->uc_link = nullptr;
    makecontext(registers, entry, 0);
    context.saved = registers;
}

#else

// Pushes the callee-saved registers of the System V ABI on the old stack, and pops them from the new one. It is hidden,
// so that each shared object calls its own without a PLT.
asm(R"(
    .pushsection .text
    .hidden tkjit_sim_switch
    .globl tkjit_sim_switch
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

inline void swap_stacks(Context& from, Context& to) { tkjit_sim_switch(&from.saved, to.saved); }

inline void start_context(Context& context, const Stack& stack, void (*entry)()) {
    constexpr int saved_registers = 6;
    void** top = reinterpret_cast<void**>(stack.lowest + stack_bytes - stack.stagger - 64);
    *--top = nullptr;  // what `entry` would return to; also makes its frame 16-byte aligned, as after a call
    *--top = reinterpret_cast<void*>(entry);
    for (int i = 0; i < saved_registers; i++) *--top = nullptr;
    context.saved = top;
}

#endif

/// Continues where `to` stopped, on `stack` (or, if that is null, on the OS thread's own stack). Returns when another
/// context switches back to `from`.
inline void switch_context(Context& from, Context& to, const Stack* stack) {
    leave_stack(from, stack);
    swap_stacks(from, to);
    enter_stack(&from);
}

}  // namespace tkjit::sim
