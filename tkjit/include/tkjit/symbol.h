// Reads and writes a source's `__constant__` and `__device__` variables from outside of kernels.
#pragma once

#include <tkjit/dtype_of.h>
#include <tkjit/launch.h>

#include <cstring>
#include <type_traits>

namespace tkjit {

// Copies a tensor into a variable, in the stream of the launch that reads it. Returns an error text, or null.
template <class Symbol>
const char* set_symbol(Symbol& symbol, const TkjitArg& arg, const char* name, int32_t device, void* stream) {
    constexpr auto count = int64_t(sizeof(Symbol) / sizeof(std::remove_all_extents_t<Symbol>));
    if (numel(arg).value() != count)
        return error_text("shape: %s has %lld elements; its symbol has %lld", name, static_cast<long long>(numel(arg).value()),
                          static_cast<long long>(count));
#ifdef TKJIT_SIM
    std::memcpy(const_cast<void*>(static_cast<const void*>(&symbol)), arg.data, sizeof(Symbol));
    return nullptr;
#else
    const detail::DeviceGuard guard(device);
    if (guard.error != cudaSuccess) return detail::cuda_error("cudaSetDevice", guard.error);
    const cudaError_t error =
        cudaMemcpyToSymbolAsync(symbol, arg.data, sizeof(Symbol), 0, cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream));
    return error == cudaSuccess ? nullptr : detail::cuda_error("cudaMemcpyToSymbolAsync", error);
#endif
}

// Describes a variable as a tensor on a device: its address, extents and dtype. An element without a dtype, such as a
// struct, becomes a row of bytes.
template <class Symbol>
const char* describe_symbol(Symbol& symbol, int32_t device, TkjitArg* described) {
    using Element = std::remove_cv_t<std::remove_all_extents_t<Symbol>>;
    static_assert(std::rank_v<Symbol> < TKJIT_MAX_RANK, "a symbol has at most 7 dims");
    *described = {};
    described->present = 1;
    set_extents<Symbol>(described->extents, described->rank);
    described->dtype = dtype_of<Element>();
    if (described->dtype < 0) {
        described->dtype = TKJIT_UINT8;
        described->extents[described->rank++] = sizeof(Element);
    }
#ifdef TKJIT_SIM
    described->data = const_cast<void*>(static_cast<const void*>(&symbol));
    return nullptr;
#else
    const detail::DeviceGuard guard(device);
    if (guard.error != cudaSuccess) return detail::cuda_error("cudaSetDevice", guard.error);
    const cudaError_t error = cudaGetSymbolAddress(&described->data, symbol);
    return error == cudaSuccess ? nullptr : detail::cuda_error("cudaGetSymbolAddress", error);
#endif
}

}  // namespace tkjit
