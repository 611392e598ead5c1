// Replaces ThunderKittens' header of this name, which needs pybind11. A source with its own binding then compiles
// without pybind11. A launcher calls the kernel or the host function itself. `python -m tkjit import` reads the
// binding.
#pragma once

#include "kittens.cuh"

#include <torch/csrc/utils/pybind.h>

namespace kittens::py {

template <auto Kernel, class Module, class... Members>
void bind_kernel(Module&, const char*, Members...) {}
template <auto Function, class Module, class... Members>
void bind_function(Module&, const char*, Members...) {}

}  // namespace kittens::py
