// Binds functions of an exported package through torch's C++ tensors and pybind11.
#pragma once

#include <tkjit/call/dtypes.h>
#include <tkjit/export/torch_dtypes.h>

// torch/extension.h also includes these, but with all of torch's C++ API it takes twice as long to compile.
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

// The name of a layout in Python.
inline std::string layout_name(at::Layout layout) {
    switch (layout) {
        case at::kSparse: return "torch.sparse_coo";
        case at::kSparseCsr: return "torch.sparse_csr";
        case at::kSparseCsc: return "torch.sparse_csc";
        case at::kSparseBsr: return "torch.sparse_bsr";
        case at::kSparseBsc: return "torch.sparse_bsc";
        default: return "torch._mkldnn";
    }
}

// Rejects tensors without plain memory. torch's dispatcher would not let them through, but this module bypasses it.
inline void check_plain(Name name, const Tensor& tensor) {
    const std::string argument = name.argument;
    const auto refuse = [&](const std::string& what) { throw std::runtime_error(std::string(name.kernel) + ": " + argument + " is " + what); };
    if (tensor.is_nested()) refuse("a nested tensor; expected a dense, strided one");
    std::string who = "(";
    for (int64_t i = 0; i < tensor.dim(); ++i) who += (i ? ", " : "") + std::to_string(tensor.size(i));
    who += std::string(tensor.dim() == 1 ? ",) " : ") ") + dtype_name(dtype_of(tensor.scalar_type())) + " on " + tensor.device().str();
    if (tensor.is_quantized()) refuse(who + ", a quantized tensor; pass " + argument + ".dequantize()");
    if (tensor.is_meta()) refuse(who + ", which holds no data; expected cpu or cuda");
    if (tensor.layout() != at::kStrided)
        refuse(who + " with the layout " + layout_name(tensor.layout()) + "; expected a dense, strided tensor; pass " + argument + ".to_dense()");
    if (!tensor.has_storage()) refuse(who + " without memory of its own; expected a plain tensor");
    if (tensor.is_conj()) refuse(who + ", a conjugate view; pass " + argument + ".resolve_conj()");
    if (tensor.is_neg()) refuse(who + ", a negative view; pass " + argument + ".resolve_neg()");
}

inline tkjit_tensor describe(Name name, const Tensor& tensor) {
    check_plain(name, tensor);
    return describe(name, tensor.scalar_type(), device_of(tensor.device()), tensor.data_ptr(), tensor.dim(), tensor.sizes().data(),
                    tensor.strides().data());
}

// Allocates an output of known shape from torch's allocator.
inline Tensor allocate(tkjit_tensor& output) {
    const auto type = output.device.type == TKJIT_CPU ? at::kCPU : at::kCUDA;
    const Device device(type, static_cast<c10::DeviceIndex>(output.device.index));
    Tensor made = at::empty(at::IntArrayRef(output.sizes, size_t(output.ndim)), at::dtype(dtypes[output.dtype]).device(device));
    output = describe({}, made);
    return made;
}

// torch's current stream on a device; null for the CPU.
inline void* stream_of([[maybe_unused]] tkjit_device device) {
#ifdef CUDA_KERNEL
    if (device.type == TKJIT_CUDA) return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device.index)).stream();
#endif
    return nullptr;
}

}  // namespace tkjit::operators

#include <tkjit/export/torch_operators.h>
