// Gets the seed and offset for a call's random numbers from torch's generators.
#pragma once

#include "refusals.h"
#include "table.h"

#include <string>

// The reason for this pragma is in runtime.cpp.
#pragma GCC push_options
#pragma GCC optimize("Og")

namespace tkjit::runtime {

// Returns the generator that a call passes, or the device's default generator.
inline Owned generator_of(const char* kernel, const char* name, PyObject* given, const TensorView& on) {
    const Owned module = import_module("torch");
    const bool on_cpu = on.device_type == DeviceType::cpu;
    if (!given) {
        if (on_cpu) return attribute(module, "default_generator");
        const Owned cuda = attribute(module, "cuda");
        call_method(cuda, "init");
        return checked(PySequence_GetItem(attribute(cuda, "default_generators").get(), on.device));
    }
    const std::string device = on_cpu ? "cpu" : "cuda:" + std::to_string(on.device);
    if (!is_instance(given, attribute(module, "Generator").get())) {
        refuse_object(kernel, name, given, "a torch.Generator");
        throw Raised{};
    }
    const std::string of = text_of(attribute(given, "device"));
    if (of == device || (of == "cuda" && on.device == 0)) return borrowed(given);
    PyErr_Format(argument_error, "%s: %s is a generator of %s; expected one of %s, where the tensors are", kernel, name, of.c_str(),
                 device.c_str());
    throw Raised{};
}

// Takes `draws` random numbers per thread from a generator. On a GPU this advances the generator's offset, as torch's
// own kernels do. The CPU's generator has no offset, so 64 bits are drawn from it and used as the seed.
inline bool random(const char* kernel, const char* name, PyObject* given, int64_t draws, const TensorView& on, TkjitArg* arg) {
    try {
        const Owned generator = generator_of(kernel, name, given, on);
        *arg = {};
        arg->present = 1;
        if (on.device_type == DeviceType::cpu) {
            const Owned module = import_module("torch"), int64 = attribute(module, "int64");
            const Owned of_one = build("{sOss}", "dtype", int64.get(), "device", "cpu");
            const Owned number = call_with_keywords(attribute(module, "empty"), build("(())"), of_one);
            const Owned range = build("(LO)", static_cast<long long>(INT64_MIN), Py_None), by = build("{sO}", "generator", generator.get());
            call_with_keywords(attribute(number, "random_"), range, by);
            arg->integer = integer_of(call_method(number, "item"));
            return true;
        }
        if (is_true(call_method(attribute(import_module("torch"), "cuda"), "is_current_stream_capturing"))) {
            PyErr_Format(launch_error, "%s: %s: a CUDA graph would draw the same random numbers each time; call it outside of the capture",
                         kernel, name);
            return false;
        }
        const int64_t offset = integer_of(call_method(generator, "get_offset"));
        arg->integer = int64_t(unsigned_of(call_method(generator, "initial_seed")));
        arg->extents[0] = offset;
        call_method(generator, "set_offset", "L", static_cast<long long>(offset + (draws + 3) / 4 * 4));
        return true;
    } catch (const Raised&) {
        return false;
    }
}

}  // namespace tkjit::runtime

#pragma GCC pop_options
