// In the place of torch's header of this name, for a source's own binding: its module is a template that nobody uses.
#pragma once

#define PYBIND11_MODULE(name, module) \
    template <class Module>           \
    [[maybe_unused]] static void tkjit_source_module(Module& module)
