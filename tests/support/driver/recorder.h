// Takes the place of <tkjit/launcher.h>: a rendered launch function prints its launch as the fake driver does.
#pragma once

#include <cuda_runtime.h>

// types of CUDA, of which a launch function needs the size at most
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) double2 {
    double x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct __nv_bfloat16;
struct __half;
struct __nv_fp8_e4m3;
struct __nv_fp8_e5m2;
struct __nv_fp8_e8m0;
struct __nv_fp4x2_e2m1;

#include <tkjit/arg.h>
#include <tkjit/convert.h>
#include <tkjit/launch_shape.h>
#include <tkjit/philox.h>

#include <cstdio>
#include <type_traits>

namespace tkjit {

template <class... Parameters>
struct Entry {};

template <class Body>
const char* without_exceptions(Body&& body) { return body(); }

template <class Parameter>
void print(const Parameter& value) {
    std::printf(" ");
    for (size_t i = 0; i < sizeof value; ++i) std::printf("%02x", reinterpret_cast<const unsigned char*>(&value)[i]);
}

template <class... Arguments>
const char* launch(const LaunchShape& shape, int32_t, void*, const Arguments&... arguments) {
    if (shape.error || shape.empty) return shape.error;
    std::printf("sizes ");
    (std::printf("%zu,", sizeof arguments), ...);
    std::printf("\nparameters");
    (print(arguments), ...);
    std::printf("\n");
    if (shape.clustered()) std::printf("attribute 4 %u %u %u\n", shape.cluster.x, shape.cluster.y, shape.cluster.z);
    if (shape.overlaps) std::printf("attribute 6 1 0 0\n");
    if (shape.cooperative) std::printf("attribute 2 1 0 0\n");
    std::printf("cuLaunchKernelEx %u,%u,%u %u,%u,%u %zu\n", shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x,
                shape.block.y, shape.block.z, shape.shared_memory_bytes);
    return nullptr;
}

template <class... Parameters>
const char* launch_with_arguments(Entry<Parameters...>, const LaunchShape& shape, int32_t device, void* stream,
                                  const TkjitArg* args) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
        return launch(shape, device, stream, convert<Parameters>(args[I])...);
    }(std::index_sequence_for<Parameters...>{});
}

template <class... Parameters>
const char* check_arguments(Entry<Parameters...>, const TkjitArg* args, std::initializer_list<const char*> names) {
    return check_parameters<Parameters...>(args, names);
}

}  // namespace tkjit
