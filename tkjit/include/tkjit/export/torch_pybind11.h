// torch's C++ tensors with pybind11, for the functions of an exported package.
#pragma once

#include <tkjit/export/torch_dtypes.h>

// torch/extension.h has these too, with all of torch's C++ API, which takes twice as long to compile.
#include <ATen/ops/empty.h>
#include <torch/csrc/utils/pybind.h>

#ifdef CUDA_KERNEL
#include <c10/cuda/CUDAStream.h>
#endif

namespace tkjit::operators {

using at::Device;
using at::Tensor;

inline tkjit_device device_of(const Device& device) {
    return device.is_cpu() ? tkjit_cpu() : device.is_cuda() ? tkjit_cuda(device.index()) : tkjit_device{-1, 0};
}

inline tkjit_tensor describe(const Tensor& tensor) {
    return describe(tensor.scalar_type(), device_of(tensor.device()), tensor.data_ptr(), tensor.dim(), tensor.sizes().data(),
                    tensor.strides().data());
}

// Memory of torch's allocator for an output whose shape is known.
inline Tensor allocate(tkjit_tensor& output) {
    const auto type = output.device.type == TKJIT_CPU ? at::kCPU : at::kCUDA;
    const Device device(type, static_cast<c10::DeviceIndex>(output.device.index));
    Tensor made = at::empty(at::IntArrayRef(output.sizes, size_t(output.ndim)), at::dtype(dtypes[output.dtype]).device(device));
    output = describe(made);
    return made;
}

// torch's current stream of a device; null for the CPU.
inline void* stream_of([[maybe_unused]] tkjit_device device) {
#ifdef CUDA_KERNEL
    if (device.type == TKJIT_CUDA) return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device.index)).stream();
#endif
    return nullptr;
}

}  // namespace tkjit::operators

#include <tkjit/export/torch_operators.h>
