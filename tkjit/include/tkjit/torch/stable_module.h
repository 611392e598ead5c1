// PYBIND11_MODULE for a source that uses torch::stable::Tensor from torch's own headers.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include "dtype_values.h"
#include "python.h"

namespace pybind11 {
inline namespace tkjit_stand_in {

template <class T>
struct Reader<torch::headeronly::HeaderOnlyArrayRef<T>> {};
template <class T>
struct Kept<torch::headeronly::HeaderOnlyArrayRef<T>> {
    using type = std::vector<T>;
};
template <>
struct Reader<torch::stable::Tensor> {
    static std::string name() { return "Tensor"; }
    static bool read(PyObject* given, torch::stable::Tensor& to) {
        const AtenTensorHandle handle = handle_of(given);
        if (handle) to = torch::stable::Tensor(handle);
        return handle != nullptr;
    }
};
template <>
struct Writer<torch::stable::Tensor> {
    static object write(const torch::stable::Tensor& tensor) {
        return tensor.defined() ? object_of(tensor.get()) : none();
    }
};

template <>
struct Reader<torch::stable::Device> {
    static std::string name() { return "torch.device"; }
    static bool read(PyObject* given, torch::stable::Device& to) {
        int type = 0, index = -1;
        if (!read_device(given, type, index)) return false;
        to = torch::stable::Device(static_cast<torch::headeronly::DeviceType>(type), index);
        return true;
    }
};

}  // inline namespace tkjit_stand_in
}  // namespace pybind11
