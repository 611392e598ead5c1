// Who may call a function: one for both host and device whose text depends on `__CUDA_ARCH__` is compiled once, for the
// device, and one for the host is compiled as if device code could call it.
#pragma once

#include <stdexcept>
#include <string>

namespace tkjit::sim {

[[noreturn]] __attribute__((noinline, cold)) inline void fail_on_host(Site site) {
    throw std::logic_error(std::string(site.file) + ":" + std::to_string(site.line) +
                           ": host code calls a function whose __CUDA_ARCH__ is the device's");
}

/// What render/architecture.py puts at the beginning of such a function.
constexpr void require_device(Site site = Site::here()) {
    if (!__builtin_is_constant_evaluated() && current_thread == nullptr) fail_on_host(site);
}

/// What render/host_calls.py puts at the beginning of a host function whose name device code uses.
inline void require_host(Site site = Site::here(), const char* function = __builtin_FUNCTION()) {
    if (current_thread != nullptr) fail(site, "device code calls the host function %s", function);
}

}  // namespace tkjit::sim
