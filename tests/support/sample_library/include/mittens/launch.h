// Launches of __device__ functions, with a struct of launch constants.
#pragma once

#include <cuda_runtime.h>

namespace mittens {

template <class Config, class Globals, auto Entry>
__global__ __launch_bounds__(Config::NUM_THREADS) void global_kernel(const __grid_constant__ Globals g) {
    Entry(g);
}

template <class Config, class Globals, auto Entry>
cudaError_t launch_kernel(const Globals& g, cudaStream_t stream = nullptr) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(g.grid());
    config.blockDim = dim3(Config::NUM_THREADS);
    config.dynamicSmemBytes = Config::DYNAMIC_SHARED_MEMORY;
    config.stream = stream;
    return cudaLaunchKernelEx(&config, global_kernel<Config, Globals, Entry>, g);
}

}  // namespace mittens
