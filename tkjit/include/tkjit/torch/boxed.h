// Functions as torch's dispatcher calls them through its stable C ABI: each argument and result is a StableIValue.
#pragma once

#include "tensor.h"

#include <cstring>

namespace c10 {
inline namespace tkjit_stand_in {

/// How a type passes through a StableIValue. ``Held`` keeps an argument while the function runs, ``take`` makes it, and
/// owns what the value refers to; ``give`` hands a result over. ``name`` is the type's in a schema.
template <class T, class = void>
struct Passed {
    static_assert(sizeof(T) == 0, "an operator takes no argument of this type here; known are tensors, int64_t, double, bool, "
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

template <>
struct Passed<at::Tensor> {
    using Held = at::Tensor;
    static std::string name() { return "Tensor"; }
    static Held take(StableIValue value) { return at::Tensor(bits_of<AtenTensorHandle>(value)); }
    static StableIValue give(const at::Tensor& tensor) { return at::stacked(tensor); }
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
template <>
struct Passed<ScalarType> {
    using Held = ScalarType;
    static std::string name() { return "ScalarType"; }
    static Held take(StableIValue value) { return ScalarType(bits_of<int32_t>(value)); }
    static StableIValue give(ScalarType dtype) { return value_of(int32_t(dtype)); }
};
template <>
struct Passed<Device> {
    using Held = Device;
    static std::string name() { return "Device"; }
    static Held take(StableIValue value) { return {DeviceType(int32_t(value >> 32)), DeviceIndex(int32_t(value))}; }
    static StableIValue give(Device device) {
        return StableIValue(uint32_t(device.type())) << 32 | uint32_t(int32_t(device.index()));
    }
};
template <>
struct Passed<std::string> {
    using Held = std::string;
    static std::string name() { return "str"; }
    static Held take(StableIValue value) {
        TORCH_CHECK(torch_string_c_str, "this version of torch passes no texts through its C ABI");
        const auto owned = bits_of<StringOpaque*>(value);
        size_t size = 0;
        const char* text = nullptr;
        check_call(torch_string_length(owned, &size), "string");
        check_call(torch_string_c_str(owned, &text), "string");
        std::string made(text, size);
        check_call(torch_delete_string(owned), "string");
        return made;
    }
    static StableIValue give(const std::string& text) {
        TORCH_CHECK(torch_new_string_handle, "this version of torch passes no texts through its C ABI");
        StringOpaque* made = nullptr;
        check_call(torch_new_string_handle(text.data(), text.size(), &made), "string");
        return value_of(made);
    }
};
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
    static StableIValue give(const std::optional<T>& value) {
        return value ? at::as_optional(Passed<T>::give(*value)) : 0;
    }
};
template <class T>
struct Passed<std::vector<T>> {
    using Held = std::vector<T>;
    static std::string name() { return Passed<T>::name() + "[]"; }
    static Held take(StableIValue value) {
        TORCH_CHECK(torch_list_size, "this version of torch passes no lists through its C ABI");
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
    static StableIValue give(const std::vector<T>& values) { return at::stacked_list(values, &Passed<T>::give); }
};
template <class T>
struct Passed<ArrayRef<T>> : Passed<std::vector<T>> {};

/// What a function's results are: nothing, one, or a tuple.
template <class R>
struct Results {
    static constexpr size_t count = 1;
    static std::string names() { return Passed<R>::name(); }
    static void give(const R& result, StableIValue* stack) { stack[0] = Passed<R>::give(result); }
};
template <class... R>
struct Results<std::tuple<R...>> {
    static constexpr size_t count = sizeof...(R);
    static std::string names() {
        std::string listed;
        int none[] = {0, (void(listed += (listed.empty() ? "" : ", ") + Passed<std::decay_t<R>>::name()), 0)...};
        (void)none;
        return "(" + listed + ")";
    }
    static void give(const std::tuple<R...>& results, StableIValue* stack) {
        give(results, stack, std::index_sequence_for<R...>());
    }

private:
    template <size_t... i>
    static void give(const std::tuple<R...>& results, StableIValue* stack, std::index_sequence<i...>) {
        int none[] = {0, (void(stack[i] = Passed<std::decay_t<R>>::give(std::get<i>(results))), 0)...};
        (void)none;
    }
};
template <>
struct Results<void> {
    static constexpr size_t count = 0;
    static std::string names() { return "()"; }
};

using BoxedFunction = void (*)(StableIValue* stack, uint64_t arguments, uint64_t results);

template <class Signature>
class Boxed;
template <class R, class... A>
class Boxed<R(A...)> {
public:
    using Function = R (*)(A...);

    /// What the dispatcher calls for a function. The C ABI keeps no data with it, so each function takes one of a fixed
    /// number of entries.
    static BoxedFunction of(Function function) {
        for (size_t i = 0; i < entries; ++i) {
            if (!functions_[i]) functions_[i] = function;
            if (functions_[i] == function) return entry(i, std::make_index_sequence<entries>());
        }
        throw Error(str("more than ", entries, " operators of one signature in a source"));
    }
    /// The schema that a function has by itself, as torch infers it.
    static std::string schema(const std::string& name) {
        std::string listed;
        size_t i = 0;
        int none[] = {0, (void(listed += str(i ? ", " : "", Passed<std::decay_t<A>>::name(), " _", i)), int(++i))...};
        (void)none;
        return name + "(" + listed + ") -> " + Results<std::decay_t<R>>::names();
    }

private:
    static constexpr size_t entries = 32;
    static inline Function functions_[entries] = {};

    template <size_t... i>
    static BoxedFunction entry(size_t at, std::index_sequence<i...>) {
        static constexpr BoxedFunction all[] = {&enter<i>...};
        return all[at];
    }
    template <size_t i>
    static void enter(StableIValue* stack, uint64_t arguments, uint64_t results) {
        constexpr size_t taken = sizeof...(A), given = Results<std::decay_t<R>>::count;
        TORCH_CHECK(arguments == taken, "the schema has ", arguments, " arguments, and the function takes ", taken);
        TORCH_CHECK(results == given, "the schema has ", results, " results, and the function returns ", given);
        call(functions_[i], stack, std::index_sequence_for<A...>());
    }
    template <size_t... i>
    static void call(Function function, StableIValue* stack, std::index_sequence<i...>) {
        // braces: from the first to the last
        std::tuple<typename Passed<std::decay_t<A>>::Held...> held{Passed<std::decay_t<A>>::take(stack[i])...};
        (void)held;
        const Launches launches;
        if constexpr (std::is_void<R>::value) {
            function(static_cast<A>(std::get<i>(held))...);
            launches.check();
        } else {
            const std::decay_t<R> made = function(static_cast<A>(std::get<i>(held))...);
            launches.check();
            Results<std::decay_t<R>>::give(made, stack);
        }
    }

    /// What the launches of one call have come to; on a GPU they go on after it, and torch reports what fails.
    struct Launches {
#ifdef TKJIT_SIM
        Launches() { cudaGetLastError(); }  // of an earlier call
        void check() const {
            const cudaError_t error = cudaGetLastError();
            if (error != cudaSuccess) throw Error(cudaGetErrorString(error));
        }
#else
        void check() const {}
#endif
    };
};

}  // inline namespace tkjit_stand_in
}  // namespace c10
