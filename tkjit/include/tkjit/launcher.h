// Common includes of all generated launchers.
#pragma once

#include <cuda_runtime.h>

#include <tkjit/arg.h>
#include <tkjit/convert.h>
#include <tkjit/expr.h>
#include <tkjit/gl.h>
#include <tkjit/launch.h>

#include <exception>

namespace tkjit {

// Calls `body`, which returns a launch's error text, and turns an exception into one: none may cross the C ABI.
template <class Body>
const char* without_exceptions(Body&& body) {
    try {
        return body();
    } catch (const std::exception& error) {
        static thread_local char text[512];
        std::snprintf(text, sizeof text, "C++ exception: %s", error.what());
        return text;
    } catch (...) {
        return "C++ exception of a type that is not std::exception";
    }
}

}  // namespace tkjit
