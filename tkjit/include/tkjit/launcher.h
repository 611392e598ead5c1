// Common includes of all generated launchers.
//
// nvcc and the simulator's C++ compiler compile the whole text of a launcher. NVRTC compiles only the device code, and a
// launch program (tkjit/runtime/launch_program.h) takes the place of the rest.
#pragma once

#ifdef __CUDACC_RTC__

#include <tkjit/device_code.h>
#include <tkjit/field_types.h>

// headers that nvcc provides without an #include
#include <algorithm>
#include <cassert>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <type_traits>
#include <utility>

#else

#include <cuda_runtime.h>

#include <tkjit/arg.h>
#include <tkjit/convert.h>
#include <tkjit/error_text.h>
#include <tkjit/expr.h>
#include <tkjit/gl.h>
#include <tkjit/launch.h>

#include <exception>

namespace tkjit {

// Calls `body`, which returns a launch's error text, and turns exceptions into such texts, because they must not
// cross the C ABI.
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

#endif
