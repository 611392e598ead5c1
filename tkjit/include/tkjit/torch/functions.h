// Tensor functions and C++ operators that do not correspond to a torch operator of the same name.
#pragma once

#include "calls.h"

namespace at {
inline namespace tkjit_stand_in {

inline Tensor Tensor::to_options(const c10::TensorOptions& wanted) const {
    const c10::Device device = wanted.device(), own = this->device();
    const bool is_there = device.type() == own.type() && (!device.has_index() || device == own);
    if (is_there && wanted.dtype() == scalar_type()) return *this;
    return call<Tensor>("aten::to", "dtype_layout", *this, std::optional<c10::ScalarType>(wanted.dtype().toScalarType()),
                        std::optional<c10::Layout>(), std::optional<c10::Device>(device), std::optional<bool>(), false, false,
                        std::optional<c10::MemoryFormat>());
}
inline TensorBase TensorBase::contiguous(c10::MemoryFormat format) const { return Tensor(*this).contiguous(format); }
inline c10::Scalar Tensor::item() const {
    TORCH_CHECK(numel() == 1, "a Tensor with ", numel(), " elements cannot be converted to Scalar");
    // these need no Python, so any thread can call them
    switch (scalar_type()) {
        case c10::kDouble: return ask<double>(aoti_torch_item_float64, "item");
        case c10::kFloat: return ask<float>(aoti_torch_item_float32, "item");
        case c10::kLong: return ask<int64_t>(aoti_torch_item_int64, "item");
        case c10::kInt: return ask<int32_t>(aoti_torch_item_int32, "item");
        case c10::kBool: return ask<bool>(aoti_torch_item_bool, "item");
        default: return call<c10::Scalar>("aten::item", "", *this);
    }
}
inline Tensor Tensor::operator[](const Tensor& index) const {
    TORCH_CHECK_INDEX(index.dim() == 0, "Can only index with tensors that are scalars (zero-dim)");
    return (*this)[index.item().toLong()];
}
template <class Other>
Tensor& Tensor::add_to(Tensor& to, const Other& other, int factor) {
    const bool is_tensor = std::is_same<Other, Tensor>::value;
    call<void>("aten::add_", is_tensor ? "Tensor" : "Scalar", to, other, c10::Scalar(factor));
    return to;
}

/// ``a - factor * b``. torch's C ABI has a function for it, which is used unless the tensors are integers.
inline Tensor minus(const Tensor& a, const Tensor& b, int factor) {
    if (c10::isIntegralType(a.scalar_type(), true) || c10::isIntegralType(b.scalar_type(), true))
        return factor < 0 ? call<Tensor>("aten::add", "Tensor", a, b, c10::Scalar(1)) : call<Tensor>("aten::sub", "Tensor", a, b, c10::Scalar(1));
    AtenTensorHandle made = nullptr;
    c10::check_call(aoti_torch_aten_subtract_Tensor(a.handle(), b.handle(), factor, &made), "subtract");
    return Tensor(made);
}
inline Tensor operator+(const Tensor& a, const Tensor& b) { return minus(a, b, -1); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return minus(a, b, 1); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return call<Tensor>("aten::mul", "Tensor", a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return call<Tensor>("aten::div", "Tensor", a, b); }
inline Tensor operator+(const Tensor& a, const c10::Scalar& b) { return call<Tensor>("aten::add", "Scalar", a, b, c10::Scalar(1)); }
inline Tensor operator-(const Tensor& a, const c10::Scalar& b) { return call<Tensor>("aten::sub", "Scalar", a, b, c10::Scalar(1)); }
inline Tensor operator*(const Tensor& a, const c10::Scalar& b) { return call<Tensor>("aten::mul", "Scalar", a, b); }
inline Tensor operator/(const Tensor& a, const c10::Scalar& b) { return call<Tensor>("aten::div", "Scalar", a, b); }
inline Tensor operator+(const c10::Scalar& a, const Tensor& b) { return b + a; }
inline Tensor operator*(const c10::Scalar& a, const Tensor& b) { return b * a; }
inline Tensor operator-(const c10::Scalar& a, const Tensor& b) { return call<Tensor>("aten::rsub", "Scalar", b, a, c10::Scalar(1)); }
inline Tensor operator/(const c10::Scalar& a, const Tensor& b) { return call<Tensor>("aten::reciprocal", "", b) * a; }
#define TKJIT_TORCH_COMPARISON(sign, name, mirrored)                                                                        \
    inline Tensor operator sign(const Tensor& a, const Tensor& b) { return call<Tensor>("aten::" name, "Tensor", a, b); }     \
    inline Tensor operator sign(const Tensor& a, const c10::Scalar& b) { return call<Tensor>("aten::" name, "Scalar", a, b); } \
    inline Tensor operator sign(const c10::Scalar& a, const Tensor& b) { return call<Tensor>("aten::" mirrored, "Scalar", b, a); }
TKJIT_TORCH_COMPARISON(<, "lt", "gt")
TKJIT_TORCH_COMPARISON(<=, "le", "ge")
TKJIT_TORCH_COMPARISON(>, "gt", "lt")
TKJIT_TORCH_COMPARISON(>=, "ge", "le")
TKJIT_TORCH_COMPARISON(==, "eq", "eq")
TKJIT_TORCH_COMPARISON(!=, "ne", "ne")
TKJIT_TORCH_COMPARISON(&, "bitwise_and", "bitwise_and")
TKJIT_TORCH_COMPARISON(|, "bitwise_or", "bitwise_or")
TKJIT_TORCH_COMPARISON(^, "bitwise_xor", "bitwise_xor")
#undef TKJIT_TORCH_COMPARISON
inline std::ostream& operator<<(std::ostream& to, const Tensor& shown) {
    if (!shown.defined()) return to << "[ Tensor (undefined) ]";
    return to << "[ " << shown.toString() << shown.sizes() << " ]";
}

inline Tensor with_options(Tensor made, const c10::TensorOptions& options) {
    return options.requires_grad() ? made.set_requires_grad(true) : made;
}

#ifdef TKJIT_TORCH_FUNCTIONS
TKJIT_TORCH_FUNCTIONS
#endif

inline int64_t size(const Tensor& of, int64_t dim) { return of.size(dim); }
inline int64_t numel(const Tensor& of) { return of.numel(); }
inline bool is_floating_point(const Tensor& of) { return of.is_floating_point(); }
inline bool is_complex(const Tensor& of) { return of.is_complex(); }

inline Tensor empty_strided_on(IntArrayRef sizes, IntArrayRef strides, c10::ScalarType dtype, c10::Device device) {
    AtenTensorHandle made = nullptr;
    const c10::Device there = c10::where_memory_is(device);
    c10::check_call(aoti_torch_empty_strided(int64_t(sizes.size()), sizes.data(), strides.data(), int32_t(dtype), int32_t(there.type()),
                                             there.index(), &made),
                    "empty_strided");
    return Tensor(made);
}
/// Makes a tensor from its elements.
template <class T>
Tensor tensor(c10::ArrayRef<T> values, const c10::TensorOptions& options = c10::CppTypeToScalarType<T>::value) {
    const Tensor made = empty_strided_on({int64_t(values.size())}, {1}, c10::CppTypeToScalarType<T>::value, c10::kCPU);
    std::copy(values.begin(), values.end(), made.template data_ptr<T>());
    const auto wanted = options.has_dtype() ? options : options.dtype(c10::CppTypeToScalarType<T>::value);
    return with_options(made.to_options(wanted), options);
}
template <class T>
Tensor tensor(const std::vector<T>& values, const c10::TensorOptions& options = c10::CppTypeToScalarType<T>::value) {
    return tensor(c10::ArrayRef<T>(values), options);
}
template <class T>
Tensor tensor(std::initializer_list<T> values, const c10::TensorOptions& options = c10::CppTypeToScalarType<T>::value) {
    return tensor(c10::ArrayRef<T>(values), options);
}
template <class T, class = std::enable_if_t<std::is_arithmetic<T>::value>>
Tensor tensor(T value, const c10::TensorOptions& options = c10::CppTypeToScalarType<T>::value) {
    return call<Tensor>("aten::select", "int", tensor(c10::ArrayRef<T>(&value, 1), options), int64_t(0), int64_t(0));
}

/// A tensor over memory that the caller keeps alive.
inline Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const c10::TensorOptions& options = {}) {
    const c10::Device there = c10::where_memory_is(options.device());
    AtenTensorHandle made = nullptr;
    c10::check_call(aoti_torch_create_tensor_from_blob(data, int64_t(sizes.size()), sizes.data(), strides.data(), 0,
                                                       int32_t(options.dtype().toScalarType()), int32_t(there.type()),
                                                       there.index(), &made),
                    "from_blob");
    return with_options(Tensor(made), options);
}
inline std::vector<int64_t> contiguous_strides(IntArrayRef sizes) {
    std::vector<int64_t> strides(sizes.size(), 1);
    for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * (sizes[i] ? sizes[i] : 1);
    return strides;
}
inline Tensor from_blob(void* data, IntArrayRef sizes, const c10::TensorOptions& options = {}) {
    return from_blob(data, sizes, contiguous_strides(sizes), options);
}

inline std::optional<c10::Device> device_of(const Tensor& tensor) {
    if (!tensor.defined()) return std::nullopt;
    return tensor.device();
}

/// Makes a device current until the end of the scope. Does nothing for the CPU.
class OptionalDeviceGuard {
public:
    OptionalDeviceGuard() = default;
    explicit OptionalDeviceGuard(std::optional<c10::Device> device) {
        if (device) reset_device(*device);
    }
    explicit OptionalDeviceGuard(c10::Device device) { reset_device(device); }
    OptionalDeviceGuard(const OptionalDeviceGuard&) = delete;
    ~OptionalDeviceGuard() {
        if (guard_) aoti_torch_delete_device_guard(guard_);
    }
    void reset_device(c10::Device device) {
        if (!device.is_cuda() || !device.has_index()) return;
        if (guard_) c10::check_call(aoti_torch_device_guard_set_index(guard_, device.index()), "DeviceGuard");
        else c10::check_call(aoti_torch_create_device_guard(device.index(), &guard_), "DeviceGuard");
    }
    void set_index(c10::DeviceIndex index) { reset_device({c10::kCUDA, index}); }

private:
    DeviceGuardOpaque* guard_ = nullptr;
};
using DeviceGuard = OptionalDeviceGuard;

/// Disables the recording of gradients until the end of the scope.
struct NoGradGuard {
    NoGradGuard() : before_(aoti_torch_grad_mode_is_enabled()) { aoti_torch_grad_mode_set_enabled(false); }
    NoGradGuard(const NoGradGuard&) = delete;
    ~NoGradGuard() { aoti_torch_grad_mode_set_enabled(before_); }

private:
    bool before_;
};
struct AutoGradMode {
    explicit AutoGradMode(bool enabled) : before_(aoti_torch_grad_mode_is_enabled()) { aoti_torch_grad_mode_set_enabled(enabled); }
    AutoGradMode(const AutoGradMode&) = delete;
    ~AutoGradMode() { aoti_torch_grad_mode_set_enabled(before_); }

private:
    bool before_;
};
/// Disables the recording of gradients. It does not mark tensors as inference tensors, because torch's C ABI cannot.
struct InferenceMode {
    explicit InferenceMode(bool enabled = true) : mode(!enabled && aoti_torch_grad_mode_is_enabled()) {}
    AutoGradMode mode;
};
struct GradMode {
    static bool is_enabled() { return aoti_torch_grad_mode_is_enabled(); }
    static void set_enabled(bool enabled) { aoti_torch_grad_mode_set_enabled(enabled); }
};
}  // inline namespace tkjit_stand_in
}  // namespace at

namespace c10 {
inline namespace tkjit_stand_in {
using at::DeviceGuard;
using at::InferenceMode;
using at::OptionalDeviceGuard;
}  // inline namespace tkjit_stand_in
}  // namespace c10

namespace torch {
using namespace at;
inline namespace tkjit_stand_in {
/// Sets the default dtype of ``torch::tensor``: int64 for integers and float32 for floating-point numbers.
/// ``at::tensor`` keeps the C++ type instead.
template <class T>
c10::TensorOptions options_for(const c10::TensorOptions& options) {
    if (options.has_dtype()) return options;
    if (std::is_floating_point<T>::value) return options.dtype(c10::kFloat);
    const bool is_number = std::is_integral<T>::value && !std::is_same<T, bool>::value;
    return options.dtype(is_number ? c10::kLong : c10::CppTypeToScalarType<T>::value);
}
template <class T>
Tensor tensor(c10::ArrayRef<T> values, const c10::TensorOptions& options = {}) {
    return at::tensor(values, options_for<T>(options));
}
template <class T>
Tensor tensor(const std::vector<T>& values, const c10::TensorOptions& options = {}) {
    return at::tensor(values, options_for<T>(options));
}
template <class T>
Tensor tensor(std::initializer_list<T> values, const c10::TensorOptions& options = {}) {
    return at::tensor(values, options_for<T>(options));
}
template <class T, class = std::enable_if_t<std::is_arithmetic<T>::value>>
Tensor tensor(T value, const c10::TensorOptions& options = {}) {
    return at::tensor(value, options_for<T>(options));
}
}  // inline namespace tkjit_stand_in
using Dtype = at::ScalarType;
constexpr auto kUInt8 = c10::kByte;
constexpr auto kInt8 = c10::kChar, kI8 = c10::kChar;
constexpr auto kInt16 = c10::kShort, kI16 = c10::kShort;
constexpr auto kInt32 = c10::kInt, kI32 = c10::kInt;
constexpr auto kInt64 = c10::kLong, kI64 = c10::kLong;
constexpr auto kFloat16 = c10::kHalf, kF16 = c10::kHalf;
constexpr auto kFloat32 = c10::kFloat, kF32 = c10::kFloat;
constexpr auto kFloat64 = c10::kDouble, kF64 = c10::kDouble;
using std::nullopt;
using std::optional;
namespace autograd {
using at::AutoGradMode;
using at::GradMode;
using at::Variable;
using variable_list = std::vector<at::Tensor>;
using tensor_list = std::vector<at::Tensor>;
using at::increment_version;
inline namespace tkjit_stand_in {
inline bool any_variable_requires_grad(const variable_list& variables) {
    return std::any_of(variables.begin(), variables.end(), [](const at::Tensor& one) { return one.defined() && one.requires_grad(); });
}
}  // inline namespace tkjit_stand_in
}  // namespace autograd
namespace utils {
inline namespace tkjit_stand_in {
inline at::Tensor flatten_dense_tensors(at::TensorList tensors) { return at::call<at::Tensor>("aten::flatten_dense_tensors", "", tensors); }
inline std::vector<at::Tensor> unflatten_dense_tensors(const at::Tensor& flat, at::TensorList tensors) {
    return at::call<std::vector<at::Tensor>>("aten::unflatten_dense_tensors", "", flat, tensors);
}
}  // inline namespace tkjit_stand_in
}  // namespace utils
namespace indexing = at::indexing;
}  // namespace torch
