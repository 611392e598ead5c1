// at::TensorArg and the checks of ATen/TensorUtils.h, with torch's messages, which name the rejected argument.
#pragma once

#include "tensor.h"

namespace at {
inline namespace tkjit_stand_in {

struct TensorArg {
    TensorArg(const Tensor& tensor, const char* name, int position) : tensor(tensor), name(name), pos(position) {}
    const Tensor* operator->() const { return &tensor; }
    const Tensor& operator*() const { return tensor; }
    friend std::ostream& operator<<(std::ostream& to, const TensorArg& shown) {
        return to << "argument #" << shown.pos << " '" << shown.name << "'";
    }
    Tensor tensor;
    const char* name;
    int pos;
};
using TensorGeometryArg = TensorArg;
using CheckedFrom = const char*;

inline void checkDim(CheckedFrom from, const TensorArg& t, int64_t dim) {
    TORCH_CHECK(t->dim() == dim, "Expected ", dim, "-dimensional tensor, but got ", t->dim(), "-dimensional tensor for ", t, " (while checking arguments for ", from, ")");
}
inline void checkDimRange(CheckedFrom from, const TensorArg& t, int64_t first, int64_t last) {
    TORCH_CHECK(t->dim() >= first && t->dim() < last, "Expected ", first, " to ", last - 1, " dimensions, but got ", t->dim(),
                "-dimensional tensor for ", t, " (while checking arguments for ", from, ")");
}
inline void checkSize(CheckedFrom from, const TensorArg& t, IntArrayRef sizes) {
    checkDim(from, t, int64_t(sizes.size()));
    TORCH_CHECK(t->sizes() == sizes, "Expected tensor of size ", sizes, ", but got tensor of size ", t->sizes(), " for ", t,
                " (while checking arguments for ", from, ")");
}
inline void checkSize(CheckedFrom from, const TensorArg& t, int64_t dim, int64_t size) {
    TORCH_CHECK(t->size(dim) == size, "Expected tensor to have size ", size, " at dimension ", dim, ", but got size ", t->size(dim), " for ", t,
                " (while checking arguments for ", from, ")");
}
inline void checkNumel(CheckedFrom from, const TensorArg& t, int64_t count) {
    TORCH_CHECK(t->numel() == count, "Expected tensor for ", t, " to have ", count, " elements; but it actually has ", t->numel(),
                " elements (while checking arguments for ", from, ")");
}
inline void checkContiguous(CheckedFrom from, const TensorArg& t) {
    TORCH_CHECK(t->is_contiguous(), "Expected contiguous tensor, but got non-contiguous tensor for ", t, " (while checking arguments for ", from, ")");
}
inline void checkDefined(CheckedFrom from, const TensorArg& t) {
    TORCH_CHECK(t->defined(), "Expected tensor for ", t, " to be non-null, but it was undefined (while checking arguments for ", from, ")");
}
inline void checkScalarType(CheckedFrom from, const TensorArg& t, c10::ScalarType type) {
    TORCH_CHECK(t->scalar_type() == type, "Expected tensor for ", t, " to have scalar type ", type, "; but got ", t->toString(),
                " instead (while checking arguments for ", from, ")");
}
inline void checkScalarTypes(CheckedFrom from, const TensorArg& t, c10::ArrayRef<c10::ScalarType> types) {
    TORCH_CHECK(std::find(types.begin(), types.end(), t->scalar_type()) != types.end(), "Expected tensor for ", t, " to have one of the scalar types ",
                types, "; but got ", t->toString(), " instead (while checking arguments for ", from, ")");
}
inline void checkSameType(CheckedFrom from, const TensorArg& a, const TensorArg& b) {
    TORCH_CHECK(a->scalar_type() == b->scalar_type() && a->is_cuda() == b->is_cuda(), "Expected tensor for ", a, " to have the same type as tensor for ", b, "; but type ",
                a->toString(), " does not equal ", b->toString(), " (while checking arguments for ", from, ")");
}
inline void checkSameGPU(CheckedFrom from, const TensorArg& a, const TensorArg& b) {
    TORCH_CHECK(a->is_cuda() && b->is_cuda(), "Tensors for ", a, " and ", b, " must be on a GPU (while checking arguments for ", from, ")");
    TORCH_CHECK(a->get_device() == b->get_device(), "Expected tensor for ", a, " to have the same device as tensor for ", b,
                " (while checking arguments for ", from, ")");
}
inline void checkSameSize(CheckedFrom from, const TensorArg& a, const TensorArg& b) {
    TORCH_CHECK(a->sizes() == b->sizes(), "Expected tensor for ", a, " to have same size as tensor for ", b, "; but ", a->sizes(), " does not equal ",
                b->sizes(), " (while checking arguments for ", from, ")");
}
inline void checkSameNumel(CheckedFrom from, const TensorArg& a, const TensorArg& b) {
    TORCH_CHECK(a->numel() == b->numel(), "Expected tensor for ", a, " to have same number of elements as tensor for ", b, " (while checking arguments for ", from, ")");
}
inline void checkSameDim(CheckedFrom from, const TensorArg& a, const TensorArg& b) {
    TORCH_CHECK(a->dim() == b->dim(), "Expected tensor for ", a, " to have the same dimension as tensor for ", b, " (while checking arguments for ", from, ")");
}
inline void checkDeviceType(CheckedFrom from, c10::ArrayRef<Tensor> tensors, c10::DeviceType type) {
    for (const Tensor& t : tensors)
        TORCH_CHECK(!t.defined() || t.device().type() == type, "Expected tensor to have ", type, " DeviceType, but got tensor with ", t.device().type(),
                    " DeviceType (while checking arguments for ", from, ")");
}
#define TKJIT_TORCH_CHECK_ALL(name, check)                                             \
    inline void name(CheckedFrom from, c10::ArrayRef<TensorArg> tensors) {              \
        const TensorArg* first = nullptr;                                              \
        for (const TensorArg& t : tensors) {                                           \
            if (!t->defined()) continue;                                               \
            if (first) check(from, *first, t);                                         \
            else first = &t;                                                           \
        }                                                                              \
    }
TKJIT_TORCH_CHECK_ALL(checkAllSameType, checkSameType)
TKJIT_TORCH_CHECK_ALL(checkAllSameGPU, checkSameGPU)
TKJIT_TORCH_CHECK_ALL(checkAllSameSize, checkSameSize)
TKJIT_TORCH_CHECK_ALL(checkAllSameNumel, checkSameNumel)
#undef TKJIT_TORCH_CHECK_ALL
inline void checkAllContiguous(CheckedFrom from, c10::ArrayRef<TensorArg> tensors) {
    for (const TensorArg& t : tensors)
        if (t->defined()) checkContiguous(from, t);
}
inline void checkAllDefined(CheckedFrom from, c10::ArrayRef<TensorArg> tensors) {
    for (const TensorArg& t : tensors) checkDefined(from, t);
}

enum class Backend { CPU, CUDA };
inline void checkBackend(CheckedFrom from, c10::ArrayRef<Tensor> tensors, Backend backend) {
    checkDeviceType(from, tensors, backend == Backend::CUDA ? c10::kCUDA : c10::kCPU);
}

}  // inline namespace tkjit_stand_in
}  // namespace at
namespace torch {
using at::Backend;
}
