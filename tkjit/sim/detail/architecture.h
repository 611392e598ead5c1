// Checks who calls a function. A function for host and device whose text depends on `__CUDA_ARCH__` is compiled once,
// for the device, so the host must not call it. And the compiler does not keep device code from calling a host
// function.
#pragma once

#include "block.h"
#include "fault.h"
#include "site.h"

#include <cstdio>
#include <exception>

namespace tkjit::sim {

/// Not a std::logic_error, because its headers would be a third of the code that is compiled for each launcher.
class HostError : public std::exception {
public:
    explicit HostError(Site site) {
        std::snprintf(text_, sizeof text_, "%s:%d: host code calls a function whose __CUDA_ARCH__ code is the device's",
                      site.file, int(site.line));
    }
    const char* what() const noexcept override { return text_; }

private:
    char text_[512];
};

[[noreturn]] __attribute__((noinline, cold)) inline void fail_on_host(Site site) { throw HostError(site); }

/// source/cuda_arch.py calls this at the beginning of such a function.
constexpr void require_device(Site site = Site::here()) {
    if (!__builtin_is_constant_evaluated() && current_thread == nullptr) fail_on_host(site);
}

/// source/host_calls.py calls this at the beginning of a host function whose name device code uses.
inline void require_host(Site site = Site::here(), const char* function = __builtin_FUNCTION()) {
    if (current_thread != nullptr) fail(site, "device code calls the host function %s", function);
}

}  // namespace tkjit::sim
