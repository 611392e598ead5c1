// Binds operators of an exported package through torch's stable ABI.
#pragma once

#include <tkjit/export/torch_dtypes.h>

#include <torch/csrc/stable/device.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#ifdef CUDA_KERNEL
// torch declares this function only in its own CUDA builds. It is weak, so that the package also imports with a CPU build.
extern "C" [[gnu::weak]] AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device_index, void** stream);
#endif

namespace tkjit::operators {

using torch::stable::Device;
using torch::stable::Tensor;
using torch::headeronly::DeviceType;

inline tkjit_device device_of(const Device& device) {
    const DeviceType type = device.type();
    return type == DeviceType::CPU ? tkjit_cpu() : type == DeviceType::CUDA ? tkjit_cuda(device.index()) : tkjit_device{-1, 0};
}

inline tkjit_tensor describe(Name name, const Tensor& tensor) {
    return describe(name, tensor.scalar_type(), device_of(tensor.device()), tensor.data_ptr(), tensor.dim(), tensor.sizes().data(),
                    tensor.strides().data());
}

// Allocates an output of known shape from torch's allocator.
inline Tensor allocate(tkjit_tensor& output) {
    const auto type = output.device.type == TKJIT_CPU ? DeviceType::CPU : DeviceType::CUDA;
    const Device device(type, static_cast<torch::stable::accelerator::DeviceIndex>(output.device.index));
    Tensor made = torch::stable::empty({output.sizes, size_t(output.ndim)}, dtypes[output.dtype], std::nullopt, device);
    output = describe({}, made);
    return made;
}

// torch's current stream on a device; null for the CPU.
inline void* stream_of([[maybe_unused]] tkjit_device device) {
    void* stream = nullptr;
#ifdef CUDA_KERNEL
    if (device.type == TKJIT_CUDA) TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device.index, &stream));
#endif
    return stream;
}

}  // namespace tkjit::operators

#include <tkjit/export/torch_operators.h>
