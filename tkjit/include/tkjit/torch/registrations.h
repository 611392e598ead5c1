// The operators that a shared object has registered, or the reason why it could not. Registering blocks run in static
// initializers, where nobody can catch an exception, so this header stores the error. cpp_extension reads it after
// loading. In a wheel the module's initialization raises it (TKJIT_RAISES_AT_IMPORT); a library without a module prints
// it (TKJIT_PRINTS_ERRORS).
#pragma once

#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tkjit {
inline namespace torch_stand_in {

struct Registrations {
    std::string error;      // of the first block that failed
    std::string functions;  // a line for each: "space::name" and the schema inferred from the function
    std::vector<std::function<void()>> undo;
};
inline Registrations& registrations() {
    static auto* const all = new Registrations;  // registrations last until the process ends
    return *all;
}
/// Undoes all registrations of this shared object. Do not call the exported tkjit_withdraw_registrations from here: in a
/// process with several such libraries, it may be the function of another one.
inline void withdraw_registrations() {
    for (auto undo = registrations().undo.rbegin(); undo != registrations().undo.rend(); ++undo) (*undo)();
    registrations().undo.clear();
}
inline void fail_registration([[maybe_unused]] const char* file, const std::exception& error) {
    if (!registrations().error.empty()) return;
    registrations().error = error.what();
#ifdef TKJIT_PRINTS_ERRORS
    std::fprintf(stderr, "%s cannot register its operators: %s\n", file, error.what());
    withdraw_registrations();
#endif
}
extern "C" __attribute__((used, visibility("default"))) inline const char* tkjit_registration_error() {
    return registrations().error.c_str();
}
extern "C" __attribute__((used, visibility("default"))) inline const char* tkjit_registered_functions() {
    return registrations().functions.c_str();
}
extern "C" __attribute__((used, visibility("default"))) inline void tkjit_withdraw_registrations() {
    withdraw_registrations();
}

/// Maps a source's dispatch key to the key that is registered. The simulator's tensors are on the CPU, so the source's
/// CUDA functions become CPU functions, and its CPU functions apply only if there is no CUDA function.
inline const char* key_in_process(const char* key) {
#ifdef TKJIT_SIM
    const std::string_view named = key ? key : "";
    if (named == "CUDA") return "CPU";
    if (named == "CPU") return "CompositeExplicitAutograd";
    if (named == "AutogradCUDA") return "AutogradCPU";
#endif
    return key;
}

}  // inline namespace torch_stand_in
}  // namespace tkjit

// turns the body of a binding or registering block into a template that is never instantiated
#define TKJIT_TORCH_PASTE(a, b) a##b
#define TKJIT_TORCH_UNIQUE(name, number) TKJIT_TORCH_PASTE(name, number)
#define TKJIT_TORCH_NOT_REGISTERED(variable, number) \
    template <class Module>                          \
    [[maybe_unused]] static void TKJIT_TORCH_UNIQUE(tkjit_unused_, number)([[maybe_unused]] Module & variable)
