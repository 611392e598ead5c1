// Who may call a function: one for both host and device whose text depends on `__CUDA_ARCH__` is compiled once, for the
// device, and one for the host is compiled as if device code could call it.
#pragma once

#include "block.h"
#include "fault.h"
#include "site.h"

#include <cstdio>
#include <exception>

namespace tkjit::sim {

/// Not a std::logic_error: its headers would be a third of what each launcher is compiled from.
class HostError : public std::exception {
public:
    explicit HostError(Site site) {
        std::snprintf(text_, sizeof text_, "%s:%d: host code calls a function whose __CUDA_ARCH__ is the device's", site.file,
                      int(site.line));
    }
    const char* what() const noexcept override { return text_; }

private:
    char text_[512];
};

[[noreturn]] __attribute__((noinline, cold)) inline void fail_on_host(Site site) { throw HostError(site); }

/// What source/cuda_arch.py puts at the beginning of such a function.
constexpr void require_device(Site site = Site::here()) {
    if (!__builtin_is_constant_evaluated() && current_thread == nullptr) fail_on_host(site);
}

/// What source/host_calls.py puts at the beginning of a host function whose name device code uses.
inline void require_host(Site site = Site::here(), const char* function = __builtin_FUNCTION()) {
    if (current_thread != nullptr) fail(site, "device code calls the host function %s", function);
}

}  // namespace tkjit::sim
