// c10::ScalarType and c10::DeviceType: the numbers are torch's.
#pragma once

#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>
#include <torch/headeronly/version.h>

#include <complex>
#include <cstdint>
#include <ostream>

namespace c10 {

template <class T>
struct alignas(sizeof(T) * 2) complex;  // torch/headeronly/util/complex.h has it, and Thrust's beside it

inline namespace tkjit_stand_in {

#define TKJIT_TORCH_DTYPES(each)                                                                                        \
    each(Byte, 0, "unsigned char") each(Char, 1, "signed char") each(Short, 2, "short int") each(Int, 3, "int")           \
    each(Long, 4, "long int") each(Half, 5, "c10::Half") each(Float, 6, "float") each(Double, 7, "double")               \
    each(ComplexHalf, 8, "c10::complex<c10::Half>") each(ComplexFloat, 9, "c10::complex<float>")                        \
    each(ComplexDouble, 10, "c10::complex<double>") each(Bool, 11, "bool") each(BFloat16, 15, "c10::BFloat16")            \
    each(Float8_e5m2, 23, "c10::Float8_e5m2") each(Float8_e4m3fn, 24, "c10::Float8_e4m3fn")                              \
    each(Float8_e5m2fnuz, 25, "c10::Float8_e5m2fnuz") each(Float8_e4m3fnuz, 26, "c10::Float8_e4m3fnuz")                  \
    each(UInt16, 27, "uint16_t") each(UInt32, 28, "uint32_t") each(UInt64, 29, "uint64_t")                               \
    each(Float8_e8m0fnu, 44, "c10::Float8_e8m0fnu") each(Float4_e2m1fn_x2, 45, "c10::Float4_e2m1fn_x2")

enum class ScalarType : int8_t {
#define TKJIT_TORCH_DTYPE(name, number, text) name = number,
    TKJIT_TORCH_DTYPES(TKJIT_TORCH_DTYPE)
#undef TKJIT_TORCH_DTYPE
    Undefined = 46,
};

#define TKJIT_TORCH_DTYPE(name, number, text) constexpr ScalarType k##name = ScalarType::name;
TKJIT_TORCH_DTYPES(TKJIT_TORCH_DTYPE)
#undef TKJIT_TORCH_DTYPE
constexpr ScalarType kUInt8 = kByte, kInt8 = kChar, kInt16 = kShort, kInt32 = kInt, kInt64 = kLong, kFloat16 = kHalf,
                     kFloat32 = kFloat, kFloat64 = kDouble;

inline const char* toString(ScalarType type) {
    switch (type) {
#define TKJIT_TORCH_DTYPE(name, number, text) \
    case ScalarType::name: return #name;
        TKJIT_TORCH_DTYPES(TKJIT_TORCH_DTYPE)
#undef TKJIT_TORCH_DTYPE
        default: return "Undefined";
    }
}
/// As torch prints it, where a source compares or shows ``options().dtype()``.
inline std::ostream& operator<<(std::ostream& to, ScalarType type) { return to << toString(type); }

/// The dtype of a C++ type.
template <class T>
struct CppTypeToScalarType;
template <ScalarType dtype>
struct CppTypeOf;
#define TKJIT_TORCH_TYPE_OF(type_, name)   \
    template <>                            \
    struct CppTypeOf<ScalarType::name> {   \
        using type = type_;                \
    };
#define TKJIT_TORCH_CPP_TYPE(type, name) \
    template <>                          \
    struct CppTypeToScalarType<type> {   \
        static constexpr ScalarType value = ScalarType::name; \
    };
TKJIT_TORCH_CPP_TYPE(uint8_t, Byte)
TKJIT_TORCH_CPP_TYPE(int8_t, Char)
TKJIT_TORCH_CPP_TYPE(int16_t, Short)
TKJIT_TORCH_CPP_TYPE(int, Int)
TKJIT_TORCH_CPP_TYPE(long, Long)
TKJIT_TORCH_CPP_TYPE(long long, Long)
TKJIT_TORCH_CPP_TYPE(c10::Half, Half)
TKJIT_TORCH_CPP_TYPE(float, Float)
TKJIT_TORCH_CPP_TYPE(double, Double)
TKJIT_TORCH_CPP_TYPE(std::complex<float>, ComplexFloat)
TKJIT_TORCH_CPP_TYPE(std::complex<double>, ComplexDouble)
TKJIT_TORCH_CPP_TYPE(c10::complex<float>, ComplexFloat)
TKJIT_TORCH_CPP_TYPE(c10::complex<double>, ComplexDouble)
TKJIT_TORCH_CPP_TYPE(bool, Bool)
TKJIT_TORCH_CPP_TYPE(c10::BFloat16, BFloat16)
TKJIT_TORCH_CPP_TYPE(uint16_t, UInt16)
TKJIT_TORCH_CPP_TYPE(uint32_t, UInt32)
TKJIT_TORCH_CPP_TYPE(unsigned long, UInt64)
#undef TKJIT_TORCH_CPP_TYPE
TKJIT_TORCH_TYPE_OF(uint8_t, Byte)
TKJIT_TORCH_TYPE_OF(int8_t, Char)
TKJIT_TORCH_TYPE_OF(int16_t, Short)
TKJIT_TORCH_TYPE_OF(int, Int)
TKJIT_TORCH_TYPE_OF(int64_t, Long)
TKJIT_TORCH_TYPE_OF(c10::Half, Half)
TKJIT_TORCH_TYPE_OF(float, Float)
TKJIT_TORCH_TYPE_OF(double, Double)
TKJIT_TORCH_TYPE_OF(c10::complex<float>, ComplexFloat)
TKJIT_TORCH_TYPE_OF(c10::complex<double>, ComplexDouble)
TKJIT_TORCH_TYPE_OF(bool, Bool)
TKJIT_TORCH_TYPE_OF(c10::BFloat16, BFloat16)
#undef TKJIT_TORCH_TYPE_OF

inline bool isFloatingType(ScalarType type) {
    return type == kDouble || type == kFloat || type == kHalf || type == kBFloat16 ||
           (type >= kFloat8_e5m2 && type <= kFloat8_e4m3fnuz);
}
inline bool isIntegralType(ScalarType type, bool with_bool) {
    return type <= kLong || (type >= kUInt16 && type <= kUInt64) || (with_bool && type == kBool);
}

enum class DeviceType : int8_t { CPU = 0, CUDA = 1, Meta = 12 };
constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA, kMeta = DeviceType::Meta;
using DeviceIndex = int8_t;

struct Device {
    Device(DeviceType type, DeviceIndex index = -1) : type_(type), index_(index) {}
    DeviceType type() const { return type_; }
    DeviceIndex index() const { return index_; }
    bool has_index() const { return index_ != -1; }
    bool is_cuda() const { return type_ == kCUDA; }
    bool is_cpu() const { return type_ == kCPU; }
    bool operator==(const Device& other) const { return type_ == other.type_ && index_ == other.index_; }
    bool operator!=(const Device& other) const { return !(*this == other); }

private:
    DeviceType type_;
    DeviceIndex index_;
};
inline std::ostream& operator<<(std::ostream& to, const Device& device) {
    to << (device.is_cuda() ? "cuda" : device.is_cpu() ? "cpu" : "meta");
    return device.has_index() ? to << ":" << int(device.index()) : to;
}

}  // inline namespace tkjit_stand_in
}  // namespace c10
