// The part of c10::IValue that AutogradContext::saved_data needs: a value of one of several types.
#pragma once

#include "tensor.h"

#include <variant>

namespace c10 {
inline namespace tkjit_stand_in {

class IValue {
public:
    IValue() = default;
    IValue(at::Tensor value) : value_(std::move(value)) {}
    template <class T, class = std::enable_if_t<std::is_arithmetic<T>::value>>
    IValue(T value) {
        if constexpr (std::is_same<T, bool>::value) value_ = value;
        else if constexpr (std::is_integral<T>::value) value_ = int64_t(value);
        else value_ = double(value);
    }
    IValue(const char* value) : value_(std::string(value)) {}
    IValue(std::string value) : value_(std::move(value)) {}
    IValue(std::vector<int64_t> value) : value_(std::move(value)) {}
    IValue(ArrayRef<int64_t> value) : value_(value.vec()) {}
    IValue(std::vector<double> value) : value_(std::move(value)) {}
    IValue(std::vector<at::Tensor> value) : value_(std::move(value)) {}
    IValue(Scalar value) {
        if (value.isBoolean()) value_ = value.toBool();
        else if (value.isIntegral()) value_ = value.toLong();
        else value_ = value.toDouble();
    }
    IValue(ScalarType value) : value_(int64_t(value)) {}
    template <class T>
    IValue(const std::optional<T>& value) {
        if (value) *this = IValue(*value);
    }
    IValue(std::nullopt_t) {}

    bool isNone() const { return std::holds_alternative<std::monostate>(value_); }
    bool isTensor() const { return std::holds_alternative<at::Tensor>(value_); }
    bool isInt() const { return std::holds_alternative<int64_t>(value_); }
    bool isDouble() const { return std::holds_alternative<double>(value_); }
    bool isBool() const { return std::holds_alternative<bool>(value_); }
    bool isString() const { return std::holds_alternative<std::string>(value_); }
    at::Tensor toTensor() const { return get<at::Tensor>("Tensor"); }
    int64_t toInt() const { return get<int64_t>("int"); }
    double toDouble() const { return isInt() ? double(toInt()) : get<double>("float"); }
    bool toBool() const { return get<bool>("bool"); }
    const std::string& toStringRef() const { return get<std::string>("str"); }
    Scalar toScalar() const { return isBool() ? Scalar(toBool()) : isInt() ? Scalar(toInt()) : Scalar(toDouble()); }
    ScalarType toScalarType() const { return ScalarType(toInt()); }
    const std::vector<int64_t>& toIntVector() const { return get<std::vector<int64_t>>("int[]"); }
    const std::vector<int64_t>& toIntList() const { return toIntVector(); }
    const std::vector<double>& toDoubleVector() const { return get<std::vector<double>>("float[]"); }
    const std::vector<at::Tensor>& toTensorVector() const { return get<std::vector<at::Tensor>>("Tensor[]"); }
    template <class T>
    std::optional<T> toOptional() const {
        if (isNone()) return std::nullopt;
        return to<T>();
    }
    template <class T>
    T to() const {
        if constexpr (std::is_same<T, bool>::value) return toBool();
        else if constexpr (std::is_integral<T>::value) return T(toInt());
        else if constexpr (std::is_floating_point<T>::value) return T(toDouble());
        else return get<T>("the requested type");
    }

private:
    template <class T>
    const T& get(const char* expected) const {
        TORCH_CHECK(std::holds_alternative<T>(value_), "the IValue does not hold ", expected);
        return std::get<T>(value_);
    }
    std::variant<std::monostate, at::Tensor, int64_t, double, bool, std::string, std::vector<int64_t>, std::vector<double>, std::vector<at::Tensor>> value_;
};

}  // inline namespace tkjit_stand_in
}  // namespace c10
namespace at {
using c10::IValue;
}
