// C++ features that device code lacks: exceptions, abort, exit. A kernel that uses them fails, and the process
// continues.
#pragma once

#include "../detail/block.h"
#include "fault.h"
#include "hardware_faults.h"
#include "launch_state.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

namespace tkjit::sim {

/// Ends the launch with a text about the running thread, and the line of the call that returns to `caller`.
[[noreturn]] __attribute__((noinline, cold)) inline void fail_after_call(const void* caller, const char* what) {
    Block& block = *current_block;
    if (claim_fault(*block.launch)) {
        ErrorText text(block.launch->error_text);
        text.append("%s", what);
        append_place(text, caller ? reinterpret_cast<uintptr_t>(caller) - 1 : 0);
    }
    abandon_block(block);
}

__attribute__((noinline, cold)) void note_exception(const char* what) {
    char* const text = current_block->exception;
    snprintf(text, sizeof current_block->exception, "the kernel threw a C++ exception, which device code cannot do: %s",
             what);
}

[[noreturn]] __attribute__((noinline, cold)) void fail_exception() {
    fail_after_call(current_block->thrown_at, current_block->exception);
}

/// Finds the C library's own function for a name that this file also defines.
template <class Function>
Function* library_function(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace tkjit::sim

#ifndef TKJIT_SIM_CHECKED  // the checker itself reports how a process ends
// Hidden definitions take precedence over the libraries', in this shared object only (like __assert_fail in fault.h).
extern "C" {
// These functions have their own C++ names, and take only the assembler labels of the library functions. Headers
// already declare the library functions as visible, and the compiler declares __cxa_throw itself.
__attribute__((visibility("hidden"), noreturn)) void tkjit_sim_throw(void* object, void* type,
                                                                     void (*destroy)(void*)) __asm__("__cxa_throw");
__attribute__((visibility("hidden"), noreturn)) void tkjit_sim_abort() __asm__("abort");
__attribute__((visibility("hidden"), noreturn)) void tkjit_sim_exit(int status) __asm__("exit");

void tkjit_sim_throw(void* object, void* type, void (*destroy)(void*)) {
    using namespace tkjit::sim;
    if (current_thread) current_block->thrown_at = __builtin_return_address(0);
    library_function<void(void*, void*, void (*)(void*))>("__cxa_throw")(object, type, destroy);
    __builtin_unreachable();
}

void tkjit_sim_abort() {
    using namespace tkjit::sim;
    if (current_thread) fail_after_call(__builtin_return_address(0), "abort() was called");
    library_function<void()>("abort")();
    __builtin_unreachable();
}

void tkjit_sim_exit(int status) {
    using namespace tkjit::sim;
    if (current_thread) fail_after_call(__builtin_return_address(0), "exit() was called");
    library_function<void(int)>("exit")(status);
    __builtin_unreachable();
}
}
#endif
