// Conversions for torch's C ABI, in which each argument and result of an operator is a StableIValue.
#pragma once

#include "tensor.h"

#include <array>
#include <cstring>
#include <string_view>

namespace c10 {
inline namespace tkjit_stand_in {

/// Converts a type from and to a StableIValue. ``Held`` holds an argument while the function runs. ``take`` makes a
/// ``Held`` and takes ownership of the object that the value refers to; ``give`` passes ownership on. ``name`` is the
/// type's name in a schema.
template <class T, class = void>
struct Passed {
    static_assert(sizeof(T) == 0, "an operator cannot have this type here; supported are tensors, int64_t, double, bool, "
                                  "std::string, dtypes, devices, and std::optional and std::vector of them");
};

template <class T>
T bits_of(StableIValue value) {
    T found;
    std::memcpy(&found, &value, sizeof found);
    return found;
}
template <class T>
StableIValue value_of(T bits) {
    StableIValue made = 0;
    std::memcpy(&made, &bits, sizeof bits);
    return made;
}

/// Returns where the memory of tensors on `device` is: in the simulator, CUDA tensors are in the CPU's memory.
inline Device where_memory_is(Device device) {
#ifdef TKJIT_SIM
    if (device.is_cuda()) return {kCPU};
#endif
    return device;
}

template <>
struct Passed<at::Tensor> {
    using Held = at::Tensor;
    static std::string name() { return "Tensor"; }
    static Held take(StableIValue value) { return at::Tensor(bits_of<AtenTensorHandle>(value)); }
    static StableIValue give(const at::Tensor& tensor) {
        AtenTensorHandle owned = nullptr;
        check_call(aoti_torch_new_tensor_handle(tensor.handle(), &owned), "new_tensor_handle");
        return value_of(owned);
    }
};
template <>
struct Passed<bool> {
    using Held = bool;
    static std::string name() { return "bool"; }
    static Held take(StableIValue value) { return bits_of<bool>(value); }
    static StableIValue give(bool value) { return value; }
};
template <class T>
struct Passed<T, std::enable_if_t<std::is_integral<T>::value && !std::is_same<T, bool>::value>> {
    using Held = T;
    static std::string name() { return "int"; }
    static Held take(StableIValue value) { return T(int64_t(value)); }
    static StableIValue give(T value) { return StableIValue(int64_t(value)); }
};
template <class T>
struct Passed<T, std::enable_if_t<std::is_floating_point<T>::value>> {
    using Held = T;
    static std::string name() { return "float"; }
    static Held take(StableIValue value) { return T(bits_of<double>(value)); }
    static StableIValue give(T value) { return value_of(double(value)); }
};
/// Dtypes, layouts and memory formats, as torch's numbers for them.
template <class T>
struct Passed<T, std::enable_if_t<std::is_enum<T>::value>> {
    using Held = T;
    static std::string name() {
        return std::is_same<T, Layout>::value ? "Layout" : std::is_same<T, MemoryFormat>::value ? "MemoryFormat" : "ScalarType";
    }
    static Held take(StableIValue value) { return T(bits_of<int32_t>(value)); }
    static StableIValue give(T value) { return value_of(int32_t(value)); }
};
template <>
struct Passed<Device> {
    using Held = Device;
    static std::string name() { return "Device"; }
    static Held take(StableIValue value) { return {DeviceType(int32_t(value >> 32)), DeviceIndex(int32_t(value))}; }
    static StableIValue give(Device device) {
        const Device there = where_memory_is(device);
        return StableIValue(uint32_t(there.type())) << 32 | uint32_t(int32_t(there.index()));
    }
};
template <>
struct Passed<std::string> {
    using Held = std::string;
    static std::string name() { return "str"; }
    static Held take(StableIValue value) {
        const auto owned = bits_of<StringOpaque*>(value);
        size_t size = 0;
        const char* text = nullptr;
        check_call(torch_string_length(owned, &size), "string");
        check_call(torch_string_c_str(owned, &text), "string");
        std::string made(text, size);
        check_call(torch_delete_string(owned), "string");
        return made;
    }
    static StableIValue give(std::string_view text) {
        StringOpaque* made = nullptr;
        check_call(torch_new_string_handle(text.data(), text.size(), &made), "string");
        return value_of(made);
    }
};
template <>
struct Passed<std::string_view> : Passed<std::string> {};
template <class T>
struct Passed<std::optional<T>> {
    using Held = std::optional<typename Passed<T>::Held>;
    static std::string name() { return Passed<T>::name() + "?"; }
    static Held take(StableIValue value) {
        const auto owned = bits_of<StableIValue*>(value);
        if (!owned) return std::nullopt;
        Held made(Passed<T>::take(*owned));
        if (torch_delete_stable_ivalue) check_call(torch_delete_stable_ivalue(owned), "optional");
        else delete owned;
        return made;
    }
    static StableIValue give(const std::optional<T>& value) { return is_given(value) ? as_optional(Passed<T>::give(*value)) : 0; }

private:
    /// An undefined tensor counts as absent, as in torch.
    static bool is_given(const std::optional<T>& value) {
        if constexpr (std::is_same<T, at::Tensor>::value) return value && value->defined();
        else return value.has_value();
    }
    static StableIValue as_optional(StableIValue value) {
        StableIValue* made = nullptr;
        if (torch_new_stable_ivalue) check_call(torch_new_stable_ivalue(&made), "optional");
        else made = new StableIValue;
        *made = value;
        return value_of(made);
    }
};
/// Lists with elements that are passed as ``T``.
template <class List, class T>
struct PassedList {
    using Held = std::vector<typename Passed<T>::Held>;
    static std::string name() { return Passed<T>::name() + "[]"; }
    static Held take(StableIValue value) {
        const auto owned = bits_of<StableListOpaque*>(value);
        size_t size = 0;
        check_call(torch_list_size(owned, &size), "list");
        Held made;
        for (size_t i = 0; i < size; ++i) {
            StableIValue item = 0;
            check_call(torch_list_get_item(owned, i, &item), "list");
            made.push_back(Passed<T>::take(item));
        }
        check_call(torch_delete_list(owned), "list");
        return made;
    }
    static StableIValue give(const List& values) {
        // reject undefined tensors before handles are made, because a list does not own its handles
        if constexpr (std::is_same<T, at::Tensor>::value)
            for (const at::Tensor& tensor : values) tensor.handle();
        StableListOpaque* made = nullptr;
        check_call(torch_new_list_reserve_size(values.size(), &made), "list");
        std::unique_ptr<StableListOpaque, void (*)(StableListOpaque*)> list(made, [](StableListOpaque* owned) { torch_delete_list(owned); });
        for (size_t i = 0; i < values.size(); ++i) check_call(torch_list_push_back(made, Passed<T>::give(values[i])), "list");
        list.release();
        return value_of(made);
    }
};
template <class T>
struct Passed<std::vector<T>> : PassedList<std::vector<T>, T> {};
template <class T>
struct Passed<List<T>> : PassedList<List<T>, T> {};
template <class T>
struct Passed<ArrayRef<T>> : PassedList<ArrayRef<T>, T> {};
template <class T, size_t N>
struct Passed<std::array<T, N>> : PassedList<std::array<T, N>, T> {};
template <class T>
struct Passed<OptionalArrayRef<T>> : Passed<std::optional<ArrayRef<T>>> {};

/// Whether torch's C ABI cannot pass a type. Operators with such types are called and registered through Python.
template <class T>
struct NeedsPython : std::false_type {};
template <>
struct NeedsPython<Scalar> : std::true_type {};
template <>
struct NeedsPython<at::Generator> : std::true_type {};
template <>
struct Passed<Scalar> {
    static std::string name() { return "Scalar"; }
};
template <>
struct Passed<at::Generator> {
    static std::string name() { return "Generator"; }
};
template <class T>
struct NeedsPython<std::optional<T>> : NeedsPython<T> {};
template <class T>
struct NeedsPython<ArrayRef<T>> : NeedsPython<T> {};
template <class T>
struct NeedsPython<std::vector<T>> : NeedsPython<T> {};
template <class... T>
struct NeedsPython<std::tuple<T...>> : std::bool_constant<(NeedsPython<T>::value || ...)> {};

}  // inline namespace tkjit_stand_in
}  // namespace c10
