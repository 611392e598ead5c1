// c10::Dispatcher: calls operators by name.
#pragma once

#include "tensor.h"

namespace c10 {
inline namespace tkjit_stand_in {

template <class Signature>
class TypedOperatorHandle;
template <class R, class... A>
class TypedOperatorHandle<R(A...)> {
public:
    TypedOperatorHandle(std::string name, std::string overload) : name_(std::move(name)), overload_(std::move(overload)) {}
    R call(A... arguments) const {
        if constexpr (std::is_reference<R>::value) {  // an operator that writes to its first argument
            at::call<void>(name_.c_str(), overload_.c_str(), arguments...);
            return std::get<0>(std::tie(arguments...));
        } else {
            using Result = std::conditional_t<std::is_void<R>::value, std::tuple<>, R>;
            return static_cast<R>(at::call<Result>(name_.c_str(), overload_.c_str(), arguments...));
        }
    }

private:
    std::string name_, overload_;
};

struct OperatorHandle {
    std::string name, overload;
    template <class Signature>
    TypedOperatorHandle<Signature> typed() const {
        return {name, overload};
    }
};

/// The operators of this process. Calling one that does not exist throws.
struct Dispatcher {
    static Dispatcher& singleton() {
        static Dispatcher one;
        return one;
    }
    OperatorHandle findSchemaOrThrow(const char* name, const char* overload) const { return {name, overload}; }
};

}  // inline namespace tkjit_stand_in
}  // namespace c10
