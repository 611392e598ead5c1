// The operators that a shared object has registered, or the reason why it could not. The blocks that register run in static
// initializers, where nobody could catch an exception, so the error is kept. cpp_extension asks for it after loading. In a
// wheel the module's initialization raises it (TKJIT_RAISES_AT_IMPORT); a library without a module prints it
// (TKJIT_PRINTS_ERRORS).
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
    std::string functions;  // "space::name" and the schema that the function has by itself, a line each
    std::vector<std::function<void()>> undo;
};
inline Registrations& registrations() {
    static auto* const all = new Registrations;  // what is registered stays until the process ends
    return *all;
}
/// Takes back all that this shared object has registered. The exported function must not be called from here: in a process
/// with several such libraries it may be another one's.
inline void withdraw_registrations() {
    for (auto undo = registrations().undo.rbegin(); undo != registrations().undo.rend(); ++undo) (*undo)();
    registrations().undo.clear();
}
inline void fail_registration([[maybe_unused]] const char* file, const std::exception& error) {
    if (!registrations().error.empty()) return;
    registrations().error = error.what();
#ifdef TKJIT_PRINTS_ERRORS
    std::fprintf(stderr, "%s registers no operators: %s\n", file, error.what());
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

/// The dispatcher's key for one that a source names. The simulator's tensors lie on the CPU: what is registered for CUDA takes
/// them, and what is registered for the CPU where there is nothing for CUDA.
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

// the body of what would bind functions or register operators: a template that nobody instantiates
#define TKJIT_TORCH_PASTE(a, b) a##b
#define TKJIT_TORCH_UNIQUE(name, number) TKJIT_TORCH_PASTE(name, number)
#define TKJIT_TORCH_NOT_REGISTERED(variable, number) \
    template <class Module>                          \
    [[maybe_unused]] static void TKJIT_TORCH_UNIQUE(tkjit_unused_, number)([[maybe_unused]] Module & variable)
