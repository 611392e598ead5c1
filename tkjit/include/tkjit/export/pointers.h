// Tensors made from plain pointers.
#pragma once

#include <tkjit/export/memory.h>

#include <initializer_list>

namespace tkjit::exported {

// ---- plain pointers ------------------------------------------------------------------------------------------------

// The dims for "...".
struct LeadingSizes {
    const int64_t* sizes;
    int32_t count;
};

// A tensor of the caller's memory. It counts as absent if the pointer is null and the tensor has elements.
class Pointed {
public:
    Pointed(const void* data, tkjit_dtype dtype, tkjit_device device, LeadingSizes leading, std::initializer_list<Int> dims,
            const int64_t* strides = nullptr) {
        tensor_.abi = TKJIT_TENSOR_ABI;
        tensor_.dtype = dtype;
        tensor_.device = device;
        tensor_.ndim = leading.count + int32_t(dims.size());
        tensor_.data = const_cast<void*>(data);
        int32_t i = 0;
        for (; i < leading.count && i < TKJIT_MAX_NDIM; ++i) tensor_.sizes[i] = leading.sizes ? leading.sizes[i] : -1;
        for (const Int dim : dims)
            if (i >= 0 && i < TKJIT_MAX_NDIM) tensor_.sizes[i++] = dim.valid() ? dim.value() : -1;
        if (tensor_.ndim < 0 || tensor_.ndim > TKJIT_MAX_NDIM) return;  // read() reports it
        set_row_major(tensor_);
        if (strides) std::memcpy(tensor_.strides, strides, size_t(tensor_.ndim) * sizeof *strides);
    }
    const tkjit_tensor* get() const { return tensor_.data || is_empty() ? &tensor_ : nullptr; }
    tkjit_tensor* output() { return const_cast<tkjit_tensor*>(get()); }

private:
    bool is_empty() const {
        for (int i = 0; i < tensor_.ndim && i < TKJIT_MAX_NDIM; ++i)
            if (tensor_.sizes[i] == 0) return true;
        return false;
    }
    tkjit_tensor tensor_{};
};

}  // namespace tkjit::exported
