// Replaces module.h in a launcher, which binds nothing: the parts of a source for Python and operators are parsed, but
// not instantiated.
#pragma once

#include "tensor.h"

namespace pybind11 {
inline namespace tkjit_stand_in {

struct module_;
struct object;
template <class... T>
struct call_guard {};
struct gil_scoped_release {};
struct gil_scoped_acquire {};
enum class return_value_policy { automatic, take_ownership, copy, move, reference, reference_internal };
struct kw_only {};
struct arg {
    explicit arg(const char*) {}
    template <class T>
    arg& operator=(const T&) {
        return *this;
    }
};
template <class... A>
int init() {
    return 0;
}
template <class F>
int init(F) {
    return 0;
}
struct Binding {
    template <class... A>
    Binding(const A&...) {}
    template <class... A>
    Binding& def(const A&...) {
        return *this;
    }
    template <class... A>
    Binding& value(const A&...) {
        return *this;
    }
    template <class... A>
    Binding& def_readwrite(const A&...) {
        return *this;
    }
    void export_values() {}
};
template <class T, class... Options>
struct class_ : Binding {
    using Binding::Binding;
};
template <class T>
struct enum_ : Binding {
    using Binding::Binding;
};

}  // inline namespace tkjit_stand_in
}  // namespace pybind11

namespace py = pybind11;

#define PYBIND11_MODULE(name, variable) TKJIT_TORCH_UNUSED(name, variable)
#define TORCH_LIBRARY(name, variable) TKJIT_TORCH_UNUSED(name##_library, variable)
#define TORCH_LIBRARY_IMPL(name, key, variable) TKJIT_TORCH_UNUSED(name##_##key, variable)
#define TORCH_LIBRARY_FRAGMENT(name, variable) TKJIT_TORCH_UNUSED(name##_fragment, variable)
#define TORCH_FN(function) (&function)
#define TORCH_BOX(function) (&function)
