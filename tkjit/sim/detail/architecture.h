// Functions for both host and device whose text depends on `__CUDA_ARCH__`: they are compiled once, for the device.
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

}  // namespace tkjit::sim
