// Calls torch's operators: through the C ABI if it can pass all types, else through Python.
#pragma once

#include "values.h"
#include "tensor_values.h"

namespace at {
inline namespace tkjit_stand_in {

template <class R>
struct Returned {
    static constexpr size_t count = 1;
    static R take(StableIValue* stack) { return c10::Passed<R>::take(stack[0]); }
};
template <>
struct Returned<void> {  // for operators that return their first argument; it is dropped
    static constexpr size_t count = 1;
    static void take(StableIValue* stack) { Tensor(c10::bits_of<AtenTensorHandle>(stack[0])); }
};
template <>
struct Returned<std::tuple<>> {  // for operators without a result
    static constexpr size_t count = 0;
    static std::tuple<> take(StableIValue*) { return {}; }
};
template <class... R>
struct Returned<std::tuple<R...>> {
    static constexpr size_t count = sizeof...(R);
    static std::tuple<R...> take(StableIValue* stack) { return take(stack, std::index_sequence_for<R...>()); }

private:
    template <size_t... i>
    static std::tuple<R...> take(StableIValue* stack, std::index_sequence<i...>) {
        return std::tuple<R...>{c10::Passed<R>::take(stack[i])...};
    }
};

/// Rejects undefined tensors before handles for other arguments are made, because those handles would leak.
template <class T>
void require_defined(const T&) {}
inline void require_defined(const Tensor& tensor) { tensor.handle(); }

template <class R, class... A>
R call(const char* name, const char* overload, const A&... arguments) {
    if constexpr ((c10::NeedsPython<R>::value || ... || c10::NeedsPython<A>::value)) {
        return call_in_python<R>(name, overload, arguments...);
    } else {
        (require_defined(arguments), ...);
        std::array<StableIValue, (sizeof...(A) > Returned<R>::count ? sizeof...(A) : Returned<R>::count)> stack{c10::Passed<A>::give(arguments)...};
        c10::check_call(torch_call_dispatcher(name, overload, stack.data(), TORCH_ABI_VERSION), name);
        return Returned<R>::take(stack.data());
    }
}

}  // inline namespace tkjit_stand_in
}  // namespace at
