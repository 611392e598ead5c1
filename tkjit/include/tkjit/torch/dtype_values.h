// torch.dtype as an argument of functions bound to Python.
#pragma once

#include "complex.h"
#include "python_values.h"

#include <torch/headeronly/core/ScalarType.h>

namespace pybind11 {
inline namespace tkjit_stand_in {

template <>
struct Reader<c10::ScalarType> {
    static std::string name() { return "torch.dtype"; }
    static bool read(PyObject* given, c10::ScalarType& to) {
        return read_dtype(given, [&](AtenTensorHandle tensor) {
            int32_t dtype = 0;
            c10::check_call(aoti_torch_get_dtype(tensor, &dtype), "dtype");
            to = static_cast<c10::ScalarType>(dtype);
            aoti_torch_delete_tensor_object(tensor);
        });
    }
};

}  // inline namespace tkjit_stand_in
}  // namespace pybind11
