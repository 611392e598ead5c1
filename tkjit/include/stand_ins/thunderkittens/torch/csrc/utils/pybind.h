// Replaces torch's header of this name for a source with its own binding: the module becomes an unused template.
#pragma once

#define PYBIND11_MODULE(name, module) \
    template <class Module>           \
    [[maybe_unused]] static void tkjit_source_module(Module& module)
