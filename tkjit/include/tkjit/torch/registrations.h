// What the blocks of a shared object have registered as operators, and why they could not. cpp_extension asks when it has loaded
// one: in a static initializer nobody could catch an exception.
#pragma once

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
extern "C" __attribute__((used, visibility("default"))) inline const char* tkjit_registration_error() {
    return registrations().error.c_str();
}
extern "C" __attribute__((used, visibility("default"))) inline const char* tkjit_registered_functions() {
    return registrations().functions.c_str();
}
extern "C" __attribute__((used, visibility("default"))) inline void tkjit_withdraw_registrations() {
    for (auto undo = registrations().undo.rbegin(); undo != registrations().undo.rend(); ++undo) (*undo)();
    registrations().undo.clear();
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
