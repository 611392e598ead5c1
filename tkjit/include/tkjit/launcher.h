// Common includes of all generated launchers.
//
// nvcc and the simulator's C++ compiler compile the whole text of a launcher. Without nvcc, NVRTC compiles the device
// code, and then the C++ compiler compiles the rest with TKJIT_HOST_HALF.
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
#ifdef TKJIT_HOST_HALF
#include <tkjit/driver_launch.h>
#else
#include <tkjit/launch.h>
#endif

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
