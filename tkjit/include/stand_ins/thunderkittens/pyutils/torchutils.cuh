// Replaces ThunderKittens' header of this name, which needs ATen, pybind11 and a CUDA build of torch. Sources with
// their own binding then compile without these. The binding's functions are never called, because a launcher calls the
// kernel itself, so here most of them only throw.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "kittens.cuh"

#include <tkjit/launch.h>
#include <torch/csrc/utils/pybind.h>

namespace at {

struct Tensor {
    int64_t size(int64_t) const { return 0; }
    int64_t numel() const { return 0; }
    int64_t dim() const { return 0; }
    int64_t stride(int64_t) const { return 0; }
    bool is_contiguous() const { return false; }
    template <class T = void>
    T* data_ptr() const {
        return nullptr;
    }
};

namespace cuda {
inline cudaStream_t getCurrentCUDAStream() { return nullptr; }
}  // namespace cuda

}  // namespace at

namespace kittens::py {

struct TKParallelTensor {
    at::Tensor data_;
    int local_rank_ = 0, local_world_size_ = 0;
};

[[noreturn]] inline void not_called() { throw std::logic_error("tkjit does not call a source's own binding"); }

template <class... Tensors>
void parallel_tensor_check(const Tensors&...) {}
template <class... Tensors>
void device_check(const Tensors&...) {}
template <class Layout, bool = true, class... Extents>
Layout tensor_to_gl(const at::Tensor&, Extents...) {
    not_called();
}
template <class Layout, bool = true, class... Extents>
Layout parallel_tensor_to_pgl(const TKParallelTensor&, Extents...) {
    not_called();
}
template <class Layout>
Layout make_fake_gl(int, int, int, int) {
    not_called();
}

// Does not refer to the kernel, so that the kernel is not compiled for the binding.
template <class Config, class Globals, auto Kernel>
void launch_kernel(const Globals&) {
    not_called();
}

template <class Config, class Globals, auto Kernel>
__global__ __launch_bounds__(Config::NUM_THREADS, tkjit::min_blocks_per_sm<Config>()) void global_kernel(
    const __grid_constant__ Globals globals) {
    Kernel(globals);
}

}  // namespace kittens::py

#define TORCH_CHECK(...) ((void)0)
#define CHECK_CUDA(x) ((void)(x))
#define CHECK_CONTIGUOUS(x) ((void)(x))
#define CHECK_INPUT(x) ((void)(x))
#define BIND_TK_PARALLEL_TENSOR(m) ((void)(m))
