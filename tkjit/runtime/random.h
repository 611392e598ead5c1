// The seed and the offset of a call's random numbers, from torch's generators.
#pragma once

#include "refusals.h"
#include "table.h"

#include <pybind11/pybind11.h>

#include <string>

namespace tkjit::runtime {

namespace py = pybind11;

// A generator as a call may bring it, or the default one of the device.
inline py::object generator_of(const char* kernel, const char* name, PyObject* given, const TensorView& on) {
    const py::module_ module = py::module_::import("torch");
    const bool on_cpu = on.device_type == DeviceType::cpu;
    if (!given) {
        if (on_cpu) return module.attr("default_generator");
        module.attr("cuda").attr("init")();
        return module.attr("cuda").attr("default_generators")[py::int_(on.device)];
    }
    const std::string device = on_cpu ? "cpu" : "cuda:" + std::to_string(on.device);
    if (!py::isinstance(given, module.attr("Generator"))) {
        refuse_object(kernel, name, given, "a torch.Generator");
        throw py::error_already_set();
    }
    const auto of = text_of(py::handle(given).attr("device"));
    if (of == device || (of == "cuda" && on.device == 0)) return py::reinterpret_borrow<py::object>(given);
    PyErr_Format(argument_error, "%s: %s is a generator of %s; expected one of %s, where the tensors are", kernel, name, of.c_str(),
                 device.c_str());
    throw py::error_already_set();
}

// Takes `draws` numbers for each thread from a generator. On a GPU by its offset, as torch's own kernels do; on the CPU, whose
// generator has none, a draw of 64 bits is the seed.
inline bool random(const char* kernel, const char* name, PyObject* given, int64_t draws, const TensorView& on, TkjitArg* arg) {
    try {
        const py::object generator = generator_of(kernel, name, given, on);
        *arg = {};
        arg->present = 1;
        if (on.device_type == DeviceType::cpu) {
            const py::module_ module = py::module_::import("torch");
            const py::object number = module.attr("empty")(py::tuple(), py::arg("dtype") = module.attr("int64"), py::arg("device") = "cpu");
            arg->integer = number.attr("random_")(INT64_MIN, py::none(), py::arg("generator") = generator).attr("item")().cast<int64_t>();
            return true;
        }
        if (py::module_::import("torch").attr("cuda").attr("is_current_stream_capturing")().cast<bool>()) {
            PyErr_Format(launch_error, "%s: %s: a CUDA graph would draw the same random numbers each time; call it outside of the capture",
                         kernel, name);
            return false;
        }
        const auto offset = generator.attr("get_offset")().cast<int64_t>();
        arg->integer = int64_t(generator.attr("initial_seed")().cast<uint64_t>());
        arg->extents[0] = offset;
        generator.attr("set_offset")(offset + (draws + 3) / 4 * 4);
        return true;
    } catch (py::error_already_set& error) {
        error.restore();
        return false;
    }
}

}  // namespace tkjit::runtime
