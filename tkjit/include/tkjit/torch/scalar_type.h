// Dtypes, memory formats and layouts from torch's own self-contained headers; c10::Device and TypeMeta.
#pragma once

#include "array_ref.h"
#include "check.h"
#include "complex.h"

#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>
#include <torch/headeronly/core/DeviceType.h>
#include <torch/headeronly/core/Layout.h>
#include <torch/headeronly/version.h>

#include <cstdint>
#include <ostream>
#include <string>

namespace c10 {
inline namespace tkjit_stand_in {

using DeviceIndex = int8_t;

inline std::string DeviceTypeName(DeviceType type, bool lower_case = false) {
    switch (type) {
        case kCPU: return lower_case ? "cpu" : "CPU";
        case kCUDA: return lower_case ? "cuda" : "CUDA";
        case kMeta: return lower_case ? "meta" : "META";
        case kXPU: return lower_case ? "xpu" : "XPU";
        default: return str("device type ", int(type));
    }
}
inline std::ostream& operator<<(std::ostream& to, DeviceType type) { return to << DeviceTypeName(type, true); }

struct Device {
    using Type = DeviceType;
    Device(DeviceType type, DeviceIndex index = -1) : type_(type), index_(index) {}
    /// Reads ``"cpu"`` or ``"cuda:1"``.
    Device(const std::string& text) {
        uint32_t type = 0;
        int32_t index = -1;
        check_call(torch_parse_device_string(text.c_str(), &type, &index), "device");
        type_ = static_cast<DeviceType>(type);
        index_ = static_cast<DeviceIndex>(index);
    }
    DeviceType type() const { return type_; }
    DeviceIndex index() const { return index_; }
    bool has_index() const { return index_ != -1; }
    void set_index(DeviceIndex index) { index_ = index; }
    bool is_cuda() const { return type_ == kCUDA; }
    bool is_cpu() const { return type_ == kCPU; }
    bool is_meta() const { return type_ == kMeta; }
    std::string str() const {
        return has_index() ? c10::str(type_, ":", int(index_)) : DeviceTypeName(type_, true);
    }
    friend bool operator==(const Device& a, const Device& b) { return a.type_ == b.type_ && a.index_ == b.index_; }
    friend bool operator!=(const Device& a, const Device& b) { return !(a == b); }
    friend std::ostream& operator<<(std::ostream& to, const Device& device) { return to << device.str(); }

private:
    DeviceType type_;
    DeviceIndex index_;
};

}  // inline namespace tkjit_stand_in
}  // namespace c10

namespace caffe2 {
inline namespace tkjit_stand_in {

/// The result of ``Tensor::dtype()``: a wrapper of a dtype.
class TypeMeta {
public:
    TypeMeta(c10::ScalarType type = c10::ScalarType::Undefined) : type_(type) {}
    template <class T>
    static TypeMeta Make() {
        return c10::CppTypeToScalarType<T>::value;
    }
    c10::ScalarType toScalarType() const { return type_; }
    bool isScalarType() const { return true; }
    bool isScalarType(c10::ScalarType type) const { return type_ == type; }
    template <class T>
    bool Match() const {
        return type_ == c10::CppTypeToScalarType<T>::value;
    }
    size_t itemsize() const { return c10::elementSize(type_); }
    /// The name of the C++ type, as torch prints it.
    const char* name() const {
        switch (type_) {
            case c10::kByte: return "unsigned char";
            case c10::kChar: return "signed char";
            case c10::kShort: return "short int";
            case c10::kLong: return "long int";
#define TKJIT_TORCH_NAME(type, name) \
    case c10::ScalarType::name: return #type;
            TKJIT_TORCH_NAME(int, Int)
            TKJIT_TORCH_NAME(float, Float)
            TKJIT_TORCH_NAME(double, Double)
            TKJIT_TORCH_NAME(bool, Bool)
            TKJIT_TORCH_NAME(c10::Half, Half)
            TKJIT_TORCH_NAME(c10::BFloat16, BFloat16)
            AT_FORALL_COMPLEX_TYPES(TKJIT_TORCH_NAME)
            AT_FORALL_FLOAT8_TYPES(TKJIT_TORCH_NAME)
#undef TKJIT_TORCH_NAME
            default: return c10::toString(type_);
        }
    }

    friend bool operator==(TypeMeta a, TypeMeta b) { return a.type_ == b.type_; }
    friend bool operator!=(TypeMeta a, TypeMeta b) { return a.type_ != b.type_; }
    friend bool operator==(TypeMeta a, c10::ScalarType b) { return a.type_ == b; }
    friend bool operator!=(TypeMeta a, c10::ScalarType b) { return a.type_ != b; }
    friend bool operator==(c10::ScalarType a, TypeMeta b) { return a == b.type_; }
    friend bool operator!=(c10::ScalarType a, TypeMeta b) { return a != b.type_; }
    friend std::ostream& operator<<(std::ostream& to, TypeMeta meta) { return to << meta.name(); }

private:
    c10::ScalarType type_;
};

}  // inline namespace tkjit_stand_in
}  // namespace caffe2

namespace c10 {
inline namespace tkjit_stand_in {
inline ScalarType typeMetaToScalarType(caffe2::TypeMeta meta) { return meta.toScalarType(); }
inline caffe2::TypeMeta scalarTypeToTypeMeta(ScalarType type) { return type; }
}  // inline namespace tkjit_stand_in
}  // namespace c10
