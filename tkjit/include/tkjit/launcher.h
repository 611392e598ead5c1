// Common includes of all generated launchers.
#pragma once

#include <cuda_runtime.h>

#include <tkjit/arg.h>
#include <tkjit/convert.h>
#include <tkjit/error_text.h>
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
        return error_text("C++ exception: %s", error.what());
    } catch (...) {
        return "C++ exception of a type that is not std::exception";
    }
}

}  // namespace tkjit
