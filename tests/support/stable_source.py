"""A C++ source that uses torch's stable API as large kernel libraries do."""

SOURCE = """
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/Dispatch.h>
#include <torch/headeronly/util/shim_utils.h>

#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime.h>

inline cublasHandle_t unused_handle() {
    void* handle = nullptr;
    TORCH_ERROR_CODE_CHECK(torch_get_current_cuda_blas_handle(&handle));
    return reinterpret_cast<cublasHandle_t>(handle);
}
template <class T>
__global__ void add_kernel(T* out, const T* a, const T* b, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = static_cast<T>(static_cast<float>(a[i]) + (b ? static_cast<float>(b[i]) : 1.f));
}
void add(torch::stable::Tensor& out, const torch::stable::Tensor& a, const std::optional<torch::stable::Tensor>& b,
         std::string_view name, std::optional<torch::headeronly::ScalarType> dtype) {
    STD_TORCH_CHECK(a.dim() == 2, name, ": expected 2 dims");
    STD_TORCH_CHECK(!dtype || *dtype == a.scalar_type(), name, ": another dtype");
    const torch::stable::accelerator::DeviceGuard guard(a.get_device_index());
    void* stream = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(a.get_device_index(), &stream));
    THO_DISPATCH_SWITCH(a.scalar_type(), "add",
        THO_DISPATCH_CASE(torch::headeronly::ScalarType::Float, [&] {
            add_kernel<scalar_t><<<(a.numel() + 63) / 64, 64, 0, static_cast<cudaStream_t>(stream)>>>(
                out.mutable_data_ptr<scalar_t>(), a.const_data_ptr<scalar_t>(),
                b ? b->const_data_ptr<scalar_t>() : nullptr, a.numel());
        })
        THO_DISPATCH_CASE(torch::headeronly::ScalarType::Half, [&] {
            add_kernel<scalar_t><<<(a.numel() + 63) / 64, 64, 0, static_cast<cudaStream_t>(stream)>>>(
                out.mutable_data_ptr<scalar_t>(), a.const_data_ptr<scalar_t>(), nullptr, a.numel());
        }));
}
torch::stable::Tensor one_more(const torch::stable::Tensor& a, torch::headeronly::IntHeaderOnlyArrayRef sizes) {
    STD_TORCH_CHECK(sizes.size() == 2, "sizes: expected 2");
    auto out = torch::stable::empty_like(a);
    add(out, a, std::nullopt, "one_more", std::nullopt);
    return out;
}
"""
