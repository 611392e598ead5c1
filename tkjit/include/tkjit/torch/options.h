// c10::Scalar and c10::TensorOptions.
#pragma once

#include "scalar_type.h"

#include <complex>
#include <optional>
#include <type_traits>

namespace c10 {
inline namespace tkjit_stand_in {

/// A number of any dtype.
class Scalar {
public:
    Scalar() : Scalar(int64_t(0)) {}
    template <class T, class = std::enable_if_t<std::is_arithmetic<T>::value>>
    Scalar(T value)
        : type_(std::is_same<T, bool>::value ? kBool : std::is_integral<T>::value ? kLong : kDouble),
          integer_(integer_of(value)), real_(double(value)) {}
    Scalar(Half value) : Scalar(float(value)) {}
    Scalar(BFloat16 value) : Scalar(float(value)) {}
    template <class T>
    Scalar(complex<T> value) : type_(kComplexDouble), integer_(0), real_(double(value.real())), imaginary_(double(value.imag())) {}

    bool isIntegral(bool includes_bool = false) const { return type_ == kLong || (includes_bool && type_ == kBool); }
    bool isFloatingPoint() const { return type_ == kDouble; }
    bool isComplex() const { return type_ == kComplexDouble; }
    bool isBoolean() const { return type_ == kBool; }
    ScalarType type() const { return type_; }
    template <class T>
    T to() const {
        if constexpr (std::is_same<T, complex<float>>::value || std::is_same<T, complex<double>>::value) {
            using Part = decltype(T().real());
            return T(isIntegral(true) ? Part(integer_) : Part(real_), Part(imaginary_));
        } else if constexpr (std::is_arithmetic<T>::value) {
            return isIntegral(true) ? static_cast<T>(integer_) : static_cast<T>(real_);
        } else {
            return static_cast<T>(isIntegral(true) ? float(integer_) : float(real_));
        }
    }
    double toDouble() const { return to<double>(); }
    float toFloat() const { return to<float>(); }
    int64_t toLong() const { return to<int64_t>(); }
    int toInt() const { return to<int>(); }
    int16_t toShort() const { return to<int16_t>(); }
    int8_t toChar() const { return to<int8_t>(); }
    uint8_t toByte() const { return to<uint8_t>(); }
    bool toBool() const { return to<bool>(); }
    Half toHalf() const { return to<Half>(); }
    BFloat16 toBFloat16() const { return to<BFloat16>(); }
    complex<double> toComplexDouble() const { return to<complex<double>>(); }
    template <class T>
    bool equal(T other) const {
        return isIntegral(true) ? T(integer_) == other : T(real_) == other;
    }
    Scalar operator-() const {
        if (isIntegral(true)) return Scalar(-integer_);
        return isComplex() ? Scalar(complex<double>(-real_, -imaginary_)) : Scalar(-real_);
    }
    friend std::ostream& operator<<(std::ostream& to, const Scalar& shown) {
        if (shown.isComplex()) return to << "(" << shown.real_ << "," << shown.imaginary_ << ")";
        return shown.isIntegral(true) ? to << shown.integer_ : to << shown.real_;
    }

private:
    template <class T>
    static int64_t integer_of(T value) {
        if constexpr (std::is_integral<T>::value) return int64_t(value);
        else return 0;
    }
    ScalarType type_;
    int64_t integer_;
    double real_, imaginary_ = 0;
};

class TensorOptions {
public:
    TensorOptions() = default;
    TensorOptions(ScalarType dtype) : dtype_(dtype) {}
    TensorOptions(caffe2::TypeMeta dtype) : dtype_(dtype.toScalarType()) {}
    TensorOptions(Layout layout) : layout_(layout) {}
    TensorOptions(Device device) : device_(device) {}
    TensorOptions(DeviceType device) : device_(Device(device)) {}
    TensorOptions(MemoryFormat format) : memory_format_(format) {}

    TensorOptions dtype(std::optional<ScalarType> dtype) const { return with(&TensorOptions::dtype_, dtype); }
    TensorOptions dtype(ScalarType dtype) const { return this->dtype(std::optional<ScalarType>(dtype)); }
    TensorOptions dtype(caffe2::TypeMeta dtype) const { return this->dtype(dtype.toScalarType()); }
    template <class T>
    TensorOptions dtype() const {
        return dtype(CppTypeToScalarType<T>::value);
    }
    TensorOptions device(std::optional<Device> device) const { return with(&TensorOptions::device_, device); }
    TensorOptions device(DeviceType type, DeviceIndex index = -1) const { return device(Device(type, index)); }
    TensorOptions device_index(DeviceIndex index) const { return device(kCUDA, index); }
    TensorOptions layout(std::optional<Layout> layout) const { return with(&TensorOptions::layout_, layout); }
    TensorOptions requires_grad(std::optional<bool> is) const { return with(&TensorOptions::requires_grad_, is); }
    TensorOptions pinned_memory(std::optional<bool> is) const { return with(&TensorOptions::pinned_memory_, is); }
    TensorOptions memory_format(std::optional<MemoryFormat> format) const { return with(&TensorOptions::memory_format_, format); }

    caffe2::TypeMeta dtype() const { return dtype_.value_or(kFloat); }
    Device device() const { return device_.value_or(Device(kCPU)); }
    DeviceIndex device_index() const { return device().index(); }
    Layout layout() const { return layout_.value_or(kStrided); }
    bool requires_grad() const { return requires_grad_.value_or(false); }
    bool pinned_memory() const { return pinned_memory_.value_or(false); }
    bool has_dtype() const { return dtype_.has_value(); }
    bool has_device() const { return device_.has_value(); }
    bool has_layout() const { return layout_.has_value(); }
    std::optional<ScalarType> dtype_opt() const { return dtype_; }
    std::optional<Device> device_opt() const { return device_; }
    std::optional<Layout> layout_opt() const { return layout_; }
    std::optional<bool> requires_grad_opt() const { return requires_grad_; }
    std::optional<bool> pinned_memory_opt() const { return pinned_memory_; }
    std::optional<MemoryFormat> memory_format_opt() const { return memory_format_; }
    friend std::ostream& operator<<(std::ostream& to, const TensorOptions& options) {
        return to << "TensorOptions(dtype=" << options.dtype() << ", device=" << options.device() << ")";
    }

private:
    template <class T>
    TensorOptions with(std::optional<T> TensorOptions::*member, std::optional<T> value) const {
        TensorOptions made = *this;
        made.*member = value;
        return made;
    }
    std::optional<ScalarType> dtype_;
    std::optional<Device> device_;
    std::optional<Layout> layout_;
    std::optional<bool> requires_grad_, pinned_memory_;
    std::optional<MemoryFormat> memory_format_;
};
inline TensorOptions dtype(ScalarType dtype) { return dtype; }
inline TensorOptions dtype(caffe2::TypeMeta dtype) { return dtype; }
template <class T>
TensorOptions dtype() {
    return CppTypeToScalarType<T>::value;
}
inline TensorOptions device(Device device) { return device; }
inline TensorOptions device(DeviceType type, DeviceIndex index) { return Device(type, index); }
inline TensorOptions device_index(DeviceIndex index) { return Device(kCUDA, index); }
inline TensorOptions layout(Layout layout) { return layout; }
inline TensorOptions requires_grad(bool is = true) { return TensorOptions().requires_grad(is); }

}  // inline namespace tkjit_stand_in
}  // namespace c10
