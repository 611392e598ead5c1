// Checks who calls a function. A host and device function whose text depends on `__CUDA_ARCH__` is compiled only once,
// for the device, so the host must not call it. And unlike nvcc, the host compiler does not stop device code from
// calling a host function.
#pragma once

#include "block.h"
#include "fault.h"
#include "site.h"

#include <cstdio>
#include <exception>

namespace tkjit::sim {

/// Thrown when host code calls a function that was compiled only for the device. This class is not derived from
/// std::logic_error, whose headers would be a third of the code that is compiled for each launcher.
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

/// source/cuda_arch.py inserts a call to this at the beginning of each function that depends on `__CUDA_ARCH__`.
constexpr void require_device(Site site = Site::here()) {
    if (!__builtin_is_constant_evaluated() && current_thread == nullptr) fail_on_host(site);
}

/// source/host_calls.py inserts a call to this at the beginning of a host function if device code uses its name.
inline void require_host(Site site = Site::here(), const char* function = __builtin_FUNCTION()) {
    if (current_thread != nullptr) fail(site, "device code calls the host function %s", function);
}

}  // namespace tkjit::sim
