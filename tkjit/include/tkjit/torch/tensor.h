// at::Tensor: a handle for torch's C ABI, which does not change between versions.
//
// The class is in an inline namespace, so it differs from torch's, which may be in the same process. A source's text
// begins with TKJIT_TORCH_METHODS and TKJIT_TORCH_FUNCTIONS: the torch operators that the source mentions, generated from
// the installed torch's native_functions.yaml (tkjit/torch_headers/operators.py). This file has the rest.
#pragma once

#ifndef TKJIT_TORCH_IN_KERNEL
#include "logging.h"
#endif
#include "options.h"
#include "shim.h"

#include <ATen/core/Reduction.h>
#include <torch/headeronly/core/TensorAccessor.h>

#include <memory>
#include <tuple>
#include <vector>

// headers that sources use without including them, because torch's headers do
#include <algorithm>
#include <atomic>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <sstream>
#include <unordered_map>
#include <unordered_set>

namespace at {
inline namespace tkjit_stand_in {

using c10::IntArrayRef;
class Tensor;
using TensorList = c10::ArrayRef<Tensor>;
using ITensorListRef = TensorList;
using Dimname = std::string;
struct DeprecatedTypeProperties;
class Storage;
void record_stream(const Tensor& tensor, void* stream, c10::DeviceIndex device);
void increment_version(const Tensor& tensor);
namespace indexing {
struct TensorIndex;
}

/// torch.Generator. Only Python can pass it to an operator.
class Generator {
public:
    Generator() = default;
    explicit Generator(std::shared_ptr<void> object) : object_(std::move(object)) {}
    bool defined() const { return object_ != nullptr; }
    void* object() const { return object_.get(); }

private:
    std::shared_ptr<void> object_;
};

/// Calls a torch operator with the arguments of its schema: ``call<Tensor>("aten::add", "Tensor", a, b, alpha)``.
template <class R, class... A>
R call(const char* name, const char* overload, const A&... arguments);

/// Applies ``options.requires_grad()`` to a new tensor.
Tensor with_options(Tensor made, const c10::TensorOptions& options);

/// The members that are not torch operators, or that torch's own code generator leaves out.
class TensorBase {
public:
    TensorBase() = default;
    /// Takes ownership of the handle.
    explicit TensorBase(AtenTensorHandle handle) : handle_(handle, &aoti_torch_delete_tensor_object) {}

    bool defined() const {
        bool is = false;
        return handle_ && !aoti_torch_is_defined(handle(), &is) && is;
    }
    AtenTensorHandle handle() const {
        if (!handle_) throw c10::Error("an undefined tensor");
        return handle_.get();
    }
    void reset() { handle_.reset(); }
    bool is_same(const TensorBase& other) const {
        return handle_ == other.handle_ || (handle_ && other.handle_ && data_ptr() == other.data_ptr() && sizes() == other.sizes() &&
                                            strides() == other.strides() && scalar_type() == other.scalar_type());
    }
    explicit operator bool() const = delete;

    void* data_ptr() const { return ask<void*>(aoti_torch_get_data_ptr, "data_ptr"); }
    template <class T>
    T* data_ptr() const {
        using Element = std::remove_const_t<T>;
        if constexpr (!std::is_void<T>::value) {
            const c10::ScalarType expected = c10::CppTypeToScalarType<Element>::value;
            TORCH_CHECK(scalar_type() == expected, "expected scalar type ", expected, " but found ", scalar_type());
        }
        return static_cast<T*>(data_ptr());
    }
    template <class T>
    T* mutable_data_ptr() const {
        return data_ptr<T>();
    }
    template <class T>
    const std::remove_const_t<T>* const_data_ptr() const {
        return data_ptr<std::remove_const_t<T>>();
    }
    void* mutable_data_ptr() const { return data_ptr(); }
    const void* const_data_ptr() const { return data_ptr(); }

    int64_t dim() const { return ask<int64_t>(aoti_torch_get_dim, "dim"); }
    int64_t ndimension() const { return dim(); }
    int64_t numel() const { return ask<int64_t>(aoti_torch_get_numel, "numel"); }
    int64_t storage_offset() const { return ask<int64_t>(aoti_torch_get_storage_offset, "storage_offset"); }
    IntArrayRef sizes() const { return {ask<int64_t*>(aoti_torch_get_sizes, "sizes"), size_t(dim())}; }
    IntArrayRef strides() const { return {ask<int64_t*>(aoti_torch_get_strides, "strides"), size_t(dim())}; }
    IntArrayRef sym_sizes() const { return sizes(); }
    IntArrayRef sym_strides() const { return strides(); }
    int64_t size(int64_t i) const { return sizes()[position(i)]; }
    int64_t stride(int64_t i) const { return strides()[position(i)]; }
    int64_t sym_size(int64_t i) const { return size(i); }
    int64_t sym_numel() const { return numel(); }
    bool has_names() const { return false; }
    size_t element_size() const { return aoti_torch_dtype_element_size(int32_t(scalar_type())); }
    size_t itemsize() const { return element_size(); }
    size_t nbytes() const { return size_t(numel()) * element_size(); }
    bool has_storage() const { return defined() && layout() == c10::kStrided; }
    Storage storage() const;

    bool is_contiguous(c10::MemoryFormat format = c10::MemoryFormat::Contiguous) const {
        switch (format) {
            case c10::MemoryFormat::ChannelsLast: return is_dense() && dim() == 4 && has_strides(c10::get_channels_last_strides_2d(sizes()));
            case c10::MemoryFormat::ChannelsLast3d: return is_dense() && dim() == 5 && has_strides(c10::get_channels_last_strides_3d(sizes()));
            default: return ask<bool>(aoti_torch_is_contiguous, "is_contiguous");
        }
    }
    TensorBase contiguous(c10::MemoryFormat format = c10::MemoryFormat::Contiguous) const;
    bool is_non_overlapping_and_dense() const { return is_dense(); }
    c10::MemoryFormat suggest_memory_format(bool = true) const {
        if (c10::is_channels_last_strides_2d(sizes(), strides())) return c10::MemoryFormat::ChannelsLast;
        if (c10::is_channels_last_strides_3d(sizes(), strides())) return c10::MemoryFormat::ChannelsLast3d;
        return c10::MemoryFormat::Contiguous;
    }

    c10::ScalarType scalar_type() const { return c10::ScalarType(ask<int32_t>(aoti_torch_get_dtype, "dtype")); }
    caffe2::TypeMeta dtype() const { return scalar_type(); }
    c10::Layout layout() const { return c10::Layout(ask<int32_t>(aoti_torch_get_layout, "layout")); }
    c10::Device device() const {
#ifdef TKJIT_SIM
        return {c10::kCUDA, 0};  // so that a source's device checks pass
#else
        const auto type = c10::DeviceType(ask<int32_t>(aoti_torch_get_device_type, "device"));
        return {type, c10::DeviceIndex(type == c10::kCPU ? -1 : get_device())};
#endif
    }
    c10::DeviceIndex get_device() const {
#ifdef TKJIT_SIM
        return 0;
#else
        return c10::DeviceIndex(ask<int32_t>(aoti_torch_get_device_index, "get_device"));
#endif
    }
    bool is_cuda() const { return device().is_cuda(); }
    bool is_cpu() const { return device().is_cpu(); }
    bool is_meta() const { return device().is_meta(); }
    bool is_hip() const { return device().type() == c10::kHIP; }
    bool is_xpu() const { return device().type() == c10::kXPU; }
    bool is_mps() const { return device().type() == c10::kMPS; }
    bool is_sparse() const { return layout() == c10::kSparse; }
    bool is_sparse_csr() const { return layout() == c10::kSparseCsr; }
    bool is_mkldnn() const { return layout() == c10::kMkldnn; }
    bool is_quantized() const { return c10::isQIntType(scalar_type()); }
    bool is_floating_point() const { return c10::isFloatingType(scalar_type()); }
    bool is_complex() const { return c10::isComplexType(scalar_type()); }
    bool is_signed() const { return c10::isSignedType(scalar_type()); }
    c10::TensorOptions options() const { return c10::TensorOptions(device()).dtype(scalar_type()).layout(layout()); }
    const DeprecatedTypeProperties& type() const;
    std::string toString() const { return c10::str(is_cuda() ? "CUDA" : "CPU", c10::toString(scalar_type()), "Type"); }

    // answered by Python; defined in tensor_values.h
    bool requires_grad() const;
    bool is_leaf() const;
    bool is_view() const;
    void print() const;

    // defined in accessor.h
    template <class T, size_t N>
    auto accessor() const;
    template <class T, size_t N, template <class> class Traits = torch::headeronly::DefaultPtrTraits, class Index = int64_t>
    auto generic_packed_accessor() const;
    template <class T, size_t N, template <class> class Traits = torch::headeronly::DefaultPtrTraits, class Index = int64_t>
    auto packed_accessor() const {
        return generic_packed_accessor<T, N, Traits, Index>();
    }
    template <class T, size_t N, template <class> class Traits = torch::headeronly::DefaultPtrTraits>
    auto packed_accessor64() const {
        return generic_packed_accessor<T, N, Traits, int64_t>();
    }
    template <class T, size_t N, template <class> class Traits = torch::headeronly::DefaultPtrTraits>
    auto packed_accessor32() const {
        TORCH_CHECK(numel() <= std::numeric_limits<int32_t>::max(),
                    "numel needs to be smaller than int32_t max; otherwise, please use packed_accessor64");
        return generic_packed_accessor<T, N, Traits, int32_t>();
    }

protected:
    template <class T, class Function>
    T ask(Function function, const char* what) const {
        T found{};
        c10::check_call(function(handle(), &found), what);
        return found;
    }
    size_t position(int64_t i) const {
        const int64_t count = dim();
        TORCH_CHECK_INDEX(i >= -count && i < count, "Dimension out of range (expected to be in range of [", -count, ", ", count - 1,
                          "], but got ", i, ")");
        return size_t(i < 0 ? i + count : i);
    }

private:
    /// Compares the strides, except those of dimensions with one element.
    bool has_strides(const std::vector<int64_t>& expected) const {
        for (size_t i = 0; i < expected.size(); ++i)
            if (sizes()[i] != 1 && strides()[i] != expected[i]) return false;
        return true;
    }
    /// Whether the elements fill their memory without gaps or overlap, in any order of dimensions.
    bool is_dense() const {
        std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
        for (int64_t i = 0; i < dim(); ++i)
            if (size(i) != 1) dims.emplace_back(stride(i), size(i));
        std::sort(dims.begin(), dims.end());
        int64_t expected = 1;
        for (const auto& [stride, size] : dims) {
            if (size == 0) return true;
            if (stride != expected) return false;
            expected *= size;
        }
        return true;
    }

    std::shared_ptr<AtenTensorOpaque> handle_;
};

class Tensor : public TensorBase {
public:
    using TensorBase::TensorBase;
    using TensorBase::operator=;
    Tensor() = default;
    Tensor(const Tensor&) = default;
    Tensor(Tensor&&) = default;
    Tensor(const TensorBase& base) : TensorBase(base) {}
    Tensor& operator=(const Tensor&) & = default;
    Tensor& operator=(Tensor&&) & = default;
    // x[i] = y writes to x
    Tensor& operator=(const Tensor& from) && {
        call<void>("aten::copy_", "", *this, from, false);
        return *this;
    }
    Tensor& operator=(const c10::Scalar& value) && {
        call<void>("aten::fill_", "Scalar", *this, value);
        return *this;
    }

#ifdef TKJIT_TORCH_METHODS
    TKJIT_TORCH_METHODS
#endif
    using TensorBase::size;
    using TensorBase::stride;

    Tensor contiguous(c10::MemoryFormat format = c10::MemoryFormat::Contiguous) const {
        return is_contiguous(format) ? *this : call<Tensor>("aten::contiguous", "", *this, format);
    }
    Tensor to_options(const c10::TensorOptions& options) const;
    Tensor toType(c10::ScalarType type) const { return to_options(options().dtype(type)); }
    Tensor cpu() const { return to_options(options().device(c10::kCPU)); }
    Tensor cuda() const { return to_options(options().device(c10::kCUDA)); }
    template <class T>
    T* data() const {
        return data_ptr<T>();
    }
    Tensor data() const { return call<Tensor>("aten::detach", "", *this); }
    Tensor tensor_data() const { return data(); }
    Tensor variable_data() const { return data(); }
    bool is_variable() const { return true; }
    c10::Scalar item() const;
    template <class T>
    T item() const {
        return item().to<T>();
    }

    Tensor operator[](int64_t index) const { return call<Tensor>("aten::select", "int", *this, int64_t(0), index); }
    Tensor operator[](const Tensor& index) const;
    Tensor operator~() const { return call<Tensor>("aten::bitwise_not", "", *this); }
    Tensor operator-() const { return call<Tensor>("aten::neg", "", *this); }
#define TKJIT_TORCH_IN_PLACE(sign, name)                                 \
    Tensor& operator sign(const Tensor& other) {                          \
        call<void>("aten::" name, "Tensor", *this, other);                \
        return *this;                                                     \
    }                                                                     \
    Tensor& operator sign(const c10::Scalar& other) {                     \
        call<void>("aten::" name, "Scalar", *this, other);                \
        return *this;                                                     \
    }
    TKJIT_TORCH_IN_PLACE(*=, "mul_")
    TKJIT_TORCH_IN_PLACE(&=, "bitwise_and_")
    TKJIT_TORCH_IN_PLACE(|=, "bitwise_or_")
    TKJIT_TORCH_IN_PLACE(^=, "bitwise_xor_")
#undef TKJIT_TORCH_IN_PLACE
    Tensor& operator/=(const Tensor& other) {
        call<void>("aten::div_", "Tensor", *this, other);
        return *this;
    }
    Tensor& operator/=(const c10::Scalar& other) {
        call<void>("aten::div_", "Scalar", *this, other);
        return *this;
    }
    Tensor& operator+=(const Tensor& other) { return add_to(*this, other, 1); }
    Tensor& operator+=(const c10::Scalar& other) { return add_to(*this, other, 1); }
    Tensor& operator-=(const Tensor& other) { return add_to(*this, other, -1); }
    Tensor& operator-=(const c10::Scalar& other) { return add_to(*this, -other, 1); }

    // defined in indexing.h
    Tensor index(c10::ArrayRef<indexing::TensorIndex> indices) const;
    Tensor index(std::initializer_list<indexing::TensorIndex> indices) const;
    Tensor& index_put_(std::initializer_list<indexing::TensorIndex> indices, const Tensor& values) const;
    Tensor& index_put_(std::initializer_list<indexing::TensorIndex> indices, const c10::Scalar& value) const;
    Tensor& index_put_(c10::ArrayRef<indexing::TensorIndex> indices, const Tensor& values) const;

    // done by Python; defined in tensor_values.h
    const Tensor& set_requires_grad(bool is) const;
    const Tensor& requires_grad_(bool is = true) const { return set_requires_grad(is); }
    Tensor grad() const;
    Tensor& mutable_grad() const;
    void backward(const Tensor& gradient = {}, std::optional<bool> retain_graph = std::nullopt, bool create_graph = false) const;
    void retain_grad() const;
    void set_data(const Tensor& from) const;

private:
    template <class Other>
    static Tensor& add_to(Tensor& to, const Other& other, int factor);
};
using Variable = Tensor;

/// The result of ``Tensor::type()``, which older sources pass to ``AT_DISPATCH_*``.
struct DeprecatedTypeProperties {
    c10::ScalarType dtype;
    c10::Device where;
    c10::ScalarType scalarType() const { return dtype; }
    const DeprecatedTypeProperties& toScalarType(c10::ScalarType other) const;
    caffe2::TypeMeta typeMeta() const { return dtype; }
    c10::DeviceType device_type() const { return where.type(); }
    bool is_cuda() const { return where.is_cuda(); }
    bool is_sparse() const { return false; }
    std::string toString() const { return c10::str(is_cuda() ? "CUDA" : "CPU", c10::toString(dtype), "Type"); }
    c10::TensorOptions options() const { return c10::TensorOptions(where).dtype(dtype); }
    operator c10::TensorOptions() const { return options(); }
    friend bool operator==(const DeprecatedTypeProperties& a, const DeprecatedTypeProperties& b) {
        return a.dtype == b.dtype && a.where.type() == b.where.type();
    }
    friend bool operator!=(const DeprecatedTypeProperties& a, const DeprecatedTypeProperties& b) { return !(a == b); }
    friend std::ostream& operator<<(std::ostream& to, const DeprecatedTypeProperties& type) { return to << type.toString(); }
};
inline const DeprecatedTypeProperties& type_of(c10::ScalarType dtype, c10::Device where) {
    static thread_local std::map<std::pair<int, int>, DeprecatedTypeProperties> known;  // a source may keep the reference
    return known.try_emplace({int(dtype), int(where.type())}, DeprecatedTypeProperties{dtype, where}).first->second;
}
inline const DeprecatedTypeProperties& TensorBase::type() const { return type_of(scalar_type(), device()); }
inline const DeprecatedTypeProperties& DeprecatedTypeProperties::toScalarType(c10::ScalarType other) const { return type_of(other, where); }
inline const DeprecatedTypeProperties& CPU(c10::ScalarType dtype) { return type_of(dtype, c10::kCPU); }
inline const DeprecatedTypeProperties& CUDA(c10::ScalarType dtype) { return type_of(dtype, c10::kCUDA); }

/// A pointer to a tensor's memory, which keeps the tensor alive.
class DataPtr {
public:
    DataPtr() = default;
    DataPtr(Tensor owner, void* data) : owner_(std::move(owner)), data_(data) {}
    void* get() const { return data_; }
    void* mutable_get() const { return data_; }
    explicit operator bool() const { return data_ != nullptr; }
    c10::Device device() const { return owner_.device(); }
    const Tensor& owner() const { return owner_; }

private:
    Tensor owner_;
    void* data_ = nullptr;
};
/// The memory of a tensor, as an owner. Copies share it.
class Storage {
public:
    explicit Storage(Tensor tensor) : tensor_(std::move(tensor)) {}
    size_t nbytes() const {
        int64_t bytes = 0;
        c10::check_call(aoti_torch_get_storage_size(tensor_.handle(), &bytes), "nbytes");
        return size_t(bytes);
    }
    const void* data() const { return mutable_data(); }
    void* mutable_data() const {
        return static_cast<char*>(tensor_.data_ptr()) - size_t(tensor_.storage_offset()) * tensor_.element_size();
    }
    DataPtr data_ptr() const { return {tensor_, mutable_data()}; }
    DataPtr mutable_data_ptr() const { return data_ptr(); }
    c10::Device device() const { return tensor_.device(); }
    bool is_alias_of(const Storage& other) const { return mutable_data() == other.mutable_data(); }

private:
    Tensor tensor_;
};
inline Storage TensorBase::storage() const { return Storage(Tensor(*this)); }

}  // inline namespace tkjit_stand_in
}  // namespace at

#include "accessor.h"
#include "values.h"
#include "tensor_values.h"
#include "calls.h"
#include "functions.h"
#include "dispatch_guards.h"
#include "indexing.h"
