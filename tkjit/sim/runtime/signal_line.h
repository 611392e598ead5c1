// Lines that a signal handler writes to standard error.
#pragma once

#include "../detail/vector_types.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

/// The kernel's name, which the rendered launcher sets.
extern "C" {
__attribute__((weak, visibility("hidden"))) const char* tkjit_kernel_name = nullptr;
}

namespace tkjit::sim {

/// A line for standard error, built without any calls that are forbidden in a signal handler.
class SignalLine {
  public:
    SignalLine& operator<<(const char* text) {
        for (; *text && used_ < sizeof line_ - 1; text++) line_[used_++] = *text;
        return *this;
    }
    SignalLine& operator<<(unsigned number) {
        char digits[16], *first = digits + sizeof digits;
        *--first = 0;
        do *--first = static_cast<char>('0' + number % 10);
        while (number /= 10);
        return *this << first;
    }
    SignalLine& operator<<(const uint3& index) {
        return *this << "(" << index.x << ", " << index.y << ", " << index.z << ")";
    }
    ~SignalLine() {
        line_[used_++] = '\n';
        [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line_, used_);
    }

  private:
    char line_[512];
    size_t used_ = 0;
};

inline const char* signal_name(int number) {
    switch (number) {
        case SIGSEGV: return "SIGSEGV";
        case SIGBUS: return "SIGBUS";
        case SIGFPE: return "SIGFPE";
        case SIGILL: return "SIGILL";
        default: return "SIGABRT";
    }
}

inline const char* kernel_name() { return tkjit_kernel_name ? tkjit_kernel_name : "a kernel"; }

}  // namespace tkjit::sim
