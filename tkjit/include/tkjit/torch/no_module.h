// The names of module.h in a launcher, which binds nothing: what a source says of Python and of operators is parsed, and
// not instantiated.
#pragma once

#include "tensor.h"

namespace pybind11 {
inline namespace tkjit_stand_in {

struct module_;
struct object;
struct none {};
template <class... T>
struct call_guard {};
struct gil_scoped_release {};
struct gil_scoped_acquire {};
struct arg {
    explicit arg(const char*) {}
    template <class T>
    arg& operator=(const T&) {
        return *this;
    }
};

}  // inline namespace tkjit_stand_in
}  // namespace pybind11

namespace py = pybind11;

namespace at {
inline namespace tkjit_stand_in {

struct Context {
    bool deterministicAlgorithms() const { return false; }
};
inline Context globalContext() { return {}; }

}  // inline namespace tkjit_stand_in
}  // namespace at

#define PYBIND11_MODULE(name, variable) TKJIT_TORCH_UNUSED(name, variable)
#define TORCH_LIBRARY(name, variable) TKJIT_TORCH_UNUSED(name##_library, variable)
#define TORCH_LIBRARY_IMPL(name, key, variable) TKJIT_TORCH_UNUSED(name##_##key, variable)
#define TORCH_LIBRARY_FRAGMENT(name, variable) TKJIT_TORCH_UNUSED(name##_fragment, variable)
#define TORCH_FN(function) (&function)
#define TORCH_BOX(function) (&function)
