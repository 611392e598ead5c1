// at::Tensor as a source for torch uses it: a handle over torch's C ABI, which stays the same from version to version.
//
// It is another type than torch's own, in an inline namespace, so that the two can be in one process.
#pragma once

#include "check.h"
#include "scalar_type.h"
#include "shim.h"

#include <array>
#include <initializer_list>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

// what sources use without including it, since torch's headers do
#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <limits>
#include <unordered_map>

namespace c10 {
inline namespace tkjit_stand_in {

template <class T>
class ArrayRef {
public:
    ArrayRef() = default;
    ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
    ArrayRef(const T& one) : data_(&one), size_(1) {}
    ArrayRef(const std::vector<T>& from) : data_(from.data()), size_(from.size()) {}
    ArrayRef(const std::initializer_list<T>& from) : data_(from.begin()), size_(from.size()) {}
    const T* data() const { return data_; }
    const T* begin() const { return data_; }
    const T* end() const { return data_ + size_; }
    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    const T& operator[](size_t i) const { return data_[i]; }
    const T& front() const { return data_[0]; }
    const T& back() const { return data_[size_ - 1]; }
    std::vector<T> vec() const { return {begin(), end()}; }
    bool equals(ArrayRef other) const {
        if (size_ != other.size_) return false;
        for (size_t i = 0; i < size_; ++i)
            if (data_[i] != other.data_[i]) return false;
        return true;
    }
    friend bool operator==(ArrayRef a, ArrayRef b) { return a.equals(b); }
    friend bool operator!=(ArrayRef a, ArrayRef b) { return !a.equals(b); }
    friend std::ostream& operator<<(std::ostream& to, ArrayRef shown) {
        to << "[";
        for (size_t i = 0; i < shown.size(); ++i) to << (i ? ", " : "") << shown[i];
        return to << "]";
    }

private:
    const T* data_ = nullptr;
    size_t size_ = 0;
};
using IntArrayRef = ArrayRef<int64_t>;

template <class T>
using optional = std::optional<T>;
using nullopt_t = std::nullopt_t;
inline constexpr std::nullopt_t nullopt = std::nullopt;

}  // inline namespace tkjit_stand_in
}  // namespace c10

namespace at {
inline namespace tkjit_stand_in {

using namespace c10::tkjit_stand_in;
using c10::BFloat16;
using c10::Half;

class TensorOptions {
public:
    TensorOptions() = default;
    TensorOptions(ScalarType dtype) : dtype_(dtype) {}
    TensorOptions(Device device) : device_(device) {}
    TensorOptions(DeviceType device) : device_(Device(device)) {}
    TensorOptions dtype(ScalarType dtype) const { return with(&TensorOptions::dtype_, dtype); }
    TensorOptions device(Device device) const { return with(&TensorOptions::device_, device); }
    TensorOptions device(DeviceType type, DeviceIndex index = -1) const { return device(Device(type, index)); }
    TensorOptions requires_grad(bool is) const {
        TORCH_CHECK(!is, "requires_grad is not supported here");
        return *this;
    }
    /// These, and what they leave open as another tensor has it.
    TensorOptions over(const TensorOptions& other) const {
        TensorOptions made = *this;
        if (!made.dtype_) made.dtype_ = other.dtype_;
        if (!made.device_) made.device_ = other.device_;
        return made;
    }
    ScalarType dtype() const { return dtype_.value_or(kFloat); }
    Device device() const { return device_.value_or(Device(kCPU)); }

private:
    template <class T>
    TensorOptions with(std::optional<T> TensorOptions::*member, T value) const {
        TensorOptions made = *this;
        made.*member = value;
        return made;
    }
    std::optional<ScalarType> dtype_;
    std::optional<Device> device_;
};
inline std::ostream& operator<<(std::ostream& to, const TensorOptions& options) {
    return to << "TensorOptions(dtype=" << options.dtype() << ", device=" << options.device() << ")";
}
inline TensorOptions dtype(ScalarType dtype) { return dtype; }
inline TensorOptions device(Device device) { return device; }

/// A number of any dtype.
class Scalar {
public:
    template <class T, class = std::enable_if_t<std::is_arithmetic<T>::value>>
    Scalar(T value) : is_integer_(std::is_integral<T>::value), integer_(int64_t(value)), real_(double(value)) {}
    bool isIntegral(bool) const { return is_integer_; }
    bool isFloatingPoint() const { return !is_integer_; }
    template <class T>
    T to() const {
        return is_integer_ ? T(integer_) : T(real_);
    }

private:
    bool is_integer_;
    int64_t integer_;
    double real_;
};

template <class T>
struct DefaultPtrTraits;
template <class T, size_t N, template <class> class Traits, class Index>
class PackedTensorAccessor;

class Tensor {
public:
    Tensor() = default;
    /// Takes the handle over.
    explicit Tensor(AtenTensorHandle handle) : handle_(handle, &aoti_torch_delete_tensor_object) {}

    bool defined() const {
        bool is = false;
        return handle_ && !aoti_torch_is_defined(handle(), &is) && is;
    }
    AtenTensorHandle handle() const {
        if (!handle_) throw Error("an undefined tensor");
        return handle_.get();
    }

    void* data_ptr() const { return ask<void*>(aoti_torch_get_data_ptr, "data_ptr"); }
    template <class T>
    T* data_ptr() const {
        using Element = std::remove_const_t<T>;
        const ScalarType expected = c10::CppTypeToScalarType<Element>::value;
        TORCH_CHECK(scalar_type() == expected, "expected scalar type ", expected, " but found ", scalar_type());
        return static_cast<T*>(data_ptr());
    }
    template <class T>
    T* mutable_data_ptr() const {
        return data_ptr<T>();
    }
    template <class T>
    const T* const_data_ptr() const {
        return data_ptr<T>();
    }
    void* mutable_data_ptr() const { return data_ptr(); }
    const void* const_data_ptr() const { return data_ptr(); }

    int64_t dim() const { return ask<int64_t>(aoti_torch_get_dim, "dim"); }
    int64_t ndimension() const { return dim(); }
    int64_t numel() const { return ask<int64_t>(aoti_torch_get_numel, "numel"); }
    int64_t storage_offset() const { return ask<int64_t>(aoti_torch_get_storage_offset, "storage_offset"); }
    IntArrayRef sizes() const { return {ask<int64_t*>(aoti_torch_get_sizes, "sizes"), size_t(dim())}; }
    IntArrayRef strides() const { return {ask<int64_t*>(aoti_torch_get_strides, "strides"), size_t(dim())}; }
    int64_t size(int64_t i) const { return sizes()[position(i)]; }
    int64_t stride(int64_t i) const { return strides()[position(i)]; }
    bool is_contiguous() const { return ask<bool>(aoti_torch_is_contiguous, "is_contiguous"); }
    size_t element_size() const { return aoti_torch_dtype_element_size(int32_t(scalar_type())); }
    size_t itemsize() const { return element_size(); }
    size_t nbytes() const { return size_t(numel()) * element_size(); }

    ScalarType scalar_type() const { return ScalarType(ask<int32_t>(aoti_torch_get_dtype, "dtype")); }
    ScalarType dtype() const { return scalar_type(); }
    Device device() const {
#ifdef TKJIT_SIM
        return {kCUDA, 0};  // the simulator's
#endif
        const auto type = DeviceType(ask<int32_t>(aoti_torch_get_device_type, "device"));
        return {type, DeviceIndex(type == kCPU ? -1 : get_device())};
    }
    int64_t get_device() const {
#ifdef TKJIT_SIM
        return 0;
#endif
        return ask<int32_t>(aoti_torch_get_device_index, "get_device"); }
    bool is_cuda() const { return device().is_cuda(); }
    bool is_cpu() const { return device().is_cpu(); }
    TensorOptions options() const { return TensorOptions(device()).dtype(scalar_type()); }

    Tensor clone() const { return made(aoti_torch_clone, "clone"); }
    Tensor contiguous() const;
    Tensor& zero_() {
        check_call(aoti_torch_zero_(handle()), "zero_");
        return *this;
    }
    const Tensor& copy_(const Tensor& from, bool non_blocking = false) const {
        check_call(aoti_torch_copy_(handle(), from.handle(), non_blocking), "copy_");
        return *this;
    }
    Tensor view(IntArrayRef wanted) const {
        TORCH_CHECK(is_contiguous(), "view: the tensor is not contiguous");
        std::vector<int64_t> sizes = wanted.vec();
        int64_t known = 1;
        for (const int64_t size : sizes) known *= size < 0 ? 1 : size;
        for (int64_t& size : sizes) size = size < 0 && known ? numel() / known : size;
        return as_contiguous(sizes);
    }
    Tensor reshape(IntArrayRef sizes) const { return contiguous().view(sizes); }
    Tensor view_as(const Tensor& like) const { return view(like.sizes()); }
    Tensor reshape_as(const Tensor& like) const { return reshape(like.sizes()); }

    // defined in accessor.h
    template <class T, size_t N>
    PackedTensorAccessor<T, N, DefaultPtrTraits, int64_t> accessor() const;
    template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
    PackedTensorAccessor<T, N, Traits, int64_t> packed_accessor64() const;
    template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
    PackedTensorAccessor<T, N, Traits, int32_t> packed_accessor32() const;

    // what follows is defined in operators.h
    Tensor as_strided(IntArrayRef sizes, IntArrayRef strides, int64_t added_offset = 0) const;
    Tensor transpose(int64_t a, int64_t b) const;
    Tensor t() const;
    Tensor permute(IntArrayRef order) const;
    Tensor unsqueeze(int64_t i) const;
    Tensor squeeze(int64_t i) const;
    Tensor narrow(int64_t i, int64_t start, int64_t length) const;
    Tensor slice(int64_t i, int64_t start, int64_t end, int64_t step = 1) const;
    Tensor select(int64_t i, int64_t index) const;
    Tensor operator[](int64_t index) const { return select(0, index); }
    Tensor expand(IntArrayRef sizes) const;
    Tensor flatten(int64_t start = 0, int64_t end = -1) const;
    std::tuple<Tensor, Tensor> sort(int64_t dim = -1, bool descending = false) const;
    std::tuple<Tensor, Tensor> sort(std::optional<bool> stable, int64_t dim, bool descending) const;
    Tensor argsort(int64_t dim = -1, bool descending = false) const;
    Tensor max() const;
    Tensor min() const;
#define TKJIT_TORCH_UNARY(each) \
    each(abs) each(sqrt) each(rsqrt) each(exp) each(log) each(sigmoid) each(tanh) each(relu) each(neg) each(square) each(sin) each(cos)
#define TKJIT_TORCH_DECLARED(name) Tensor name() const;
    TKJIT_TORCH_UNARY(TKJIT_TORCH_DECLARED)
#undef TKJIT_TORCH_DECLARED
    Tensor index_select(int64_t dim, const Tensor& index) const;
    std::vector<Tensor> chunk(int64_t count, int64_t dim = 0) const;
    Tensor sum() const;
    Tensor sum(IntArrayRef dims, bool keepdim = false) const;
    Tensor add(const Tensor& other) const;
    Tensor sub(const Tensor& other) const;
    Tensor mul(const Tensor& by) const;
    Tensor div(const Tensor& by) const;
    Tensor matmul(const Tensor& other) const;
    const Tensor& add_(const Tensor& other) const;
    const Tensor& sub_(const Tensor& other) const;
    const Tensor& mul_(const Tensor& by) const;
    const Tensor& div_(const Tensor& by) const;

    /// A copy of another dtype or on another device; the tensor itself where it has both.
    Tensor to(const TensorOptions& options) const;
    Tensor to(ScalarType dtype) const { return to(options().dtype(dtype)); }
    Tensor to(Device device) const { return to(options().device(device)); }
    Tensor to(DeviceType type) const { return to(Device(type)); }
    Tensor to(Device device, ScalarType dtype) const { return to(TensorOptions(device).dtype(dtype)); }
    Tensor cpu() const { return to(Device(kCPU)); }
    Tensor cuda() const { return to(Device(kCUDA)); }
    Scalar item() const;
    template <class T>
    T item() const;
    const Tensor& fill_(const Scalar& value) const;

    bool is_same(const Tensor& other) const { return handle_ == other.handle_; }

private:
    template <class T, class Function>
    T ask(Function function, const char* what) const {
        T found{};
        check_call(function(handle(), &found), what);
        return found;
    }
    template <class Function>
    Tensor made(Function function, const char* what) const {
        AtenTensorHandle found = nullptr;
        check_call(function(handle(), &found), what);
        return Tensor(found);
    }
    Tensor as_contiguous(IntArrayRef sizes) const;
    size_t position(int64_t i) const {
        const int64_t count = dim();
        if (i < -count || i >= count) throw IndexError(c10::str("Dimension out of range (expected to be in range of [", -count, ", ", count - 1, "], but got ", i, ")"));
        return size_t(i < 0 ? i + count : i);
    }

    std::shared_ptr<AtenTensorOpaque> handle_;
};

inline std::vector<int64_t> contiguous_strides(IntArrayRef sizes) {
    std::vector<int64_t> strides(sizes.size(), 1);
    for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * (sizes[i] ? sizes[i] : 1);
    return strides;
}
inline Tensor Tensor::as_contiguous(IntArrayRef sizes) const { return as_strided(sizes, contiguous_strides(sizes)); }

/// The simulator's device is the CPU.
inline Device where_memory_is(Device device) {
#ifdef TKJIT_SIM
    if (device.is_cuda()) return {kCPU};
#endif
    return device;
}

inline Tensor empty(IntArrayRef sizes, const TensorOptions& options = {}) {
    const std::vector<int64_t> strides = contiguous_strides(sizes);
    AtenTensorHandle made = nullptr;
    const Device device = where_memory_is(options.device());
    check_call(aoti_torch_empty_strided(int64_t(sizes.size()), sizes.data(), strides.data(), int32_t(options.dtype()),
                                        int32_t(device.type()), device.index(), &made), "empty");
    return Tensor(made);
}
inline Tensor zeros(IntArrayRef sizes, const TensorOptions& options = {}) {
    Tensor made = empty(sizes, options);
    return made.zero_();
}
inline Tensor empty_like(const Tensor& like) { return empty(like.sizes(), like.options()); }
inline Tensor empty_like(const Tensor& like, const TensorOptions& options) { return empty(like.sizes(), options.over(like.options())); }
inline Tensor zeros_like(const Tensor& like) { return zeros(like.sizes(), like.options()); }
inline Tensor zeros_like(const Tensor& like, const TensorOptions& options) { return zeros(like.sizes(), options.over(like.options())); }

inline Tensor Tensor::contiguous() const { return is_contiguous() ? *this : empty(sizes(), options()).copy_(*this); }
inline Tensor Tensor::to(const TensorOptions& wanted) const {
    const Device device = wanted.device(), own = this->device();
    const bool is_there = device.type() == own.type() && (!device.has_index() || device == own);
    if (is_there && wanted.dtype() == scalar_type()) return *this;
    Tensor made = empty(sizes(), wanted);
    return made.copy_(*this);
}
inline Scalar Tensor::item() const {
    TORCH_CHECK(numel() == 1, "a Tensor with ", numel(), " elements cannot be converted to Scalar");
    if (c10::isFloatingType(scalar_type())) return *to(Device(kCPU), kDouble).data_ptr<double>();
    return *to(Device(kCPU), kLong).data_ptr<int64_t>();
}
template <class T>
T Tensor::item() const {
    return item().to<T>();
}

/// A tensor of given elements.
template <class T>
Tensor tensor(ArrayRef<T> values, const TensorOptions& options) {
    Tensor made = empty({int64_t(values.size())}, TensorOptions(c10::CppTypeToScalarType<T>::value));
    std::copy(values.begin(), values.end(), made.data_ptr<T>());
    return made.to(options);
}
template <class T>
Tensor tensor(const std::vector<T>& values, const TensorOptions& options) {
    return tensor(ArrayRef<T>(values), options);
}
template <class T>
Tensor tensor(const std::vector<T>& values) {
    return tensor(ArrayRef<T>(values), TensorOptions(c10::CppTypeToScalarType<T>::value));
}
inline const Tensor& Tensor::fill_(const Scalar& value) const {
    const std::vector<double> one{value.to<double>()};
    const std::vector<int64_t> whole{value.to<int64_t>()};
    const Tensor from = value.isIntegral(false) ? tensor(whole) : tensor(one);
    return copy_(from.as_strided(sizes(), std::vector<int64_t>(size_t(dim()), 0)));
}
inline Tensor full(IntArrayRef sizes, const Scalar& value, const TensorOptions& options = {}) { return empty(sizes, options).fill_(value); }
inline Tensor ones(IntArrayRef sizes, const TensorOptions& options = {}) { return full(sizes, 1, options); }
inline Tensor ones_like(const Tensor& like) { return ones(like.sizes(), like.options()); }
inline Tensor full_like(const Tensor& like, const Scalar& value) { return full(like.sizes(), value, like.options()); }

}  // inline namespace tkjit_stand_in
}  // namespace at

#include "accessor.h"
#include "operators.h"

namespace torch {
inline namespace tkjit_stand_in {
using namespace at::tkjit_stand_in;
using c10::BFloat16;
using c10::Half;
}  // inline namespace tkjit_stand_in
}  // namespace torch
