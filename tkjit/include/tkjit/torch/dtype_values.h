// torch.dtype as an argument and a result of functions bound to Python.
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

template <>
struct Writer<c10::ScalarType> {
    static object write(c10::ScalarType dtype) {
        static auto* const known = new std::unordered_map<int, object>;
        object& found = (*known)[int(dtype)];
        if (!found.ptr()) {
            AtenTensorHandle tensor = nullptr;
            const int64_t size = 0, stride = 1;
            c10::check_call(aoti_torch_empty_strided(1, &size, &stride, int32_t(dtype), 0, -1, &tensor), "dtype");
            const object made = object_of(tensor);
            aoti_torch_delete_tensor_object(tensor);
            found = check(PyObject_GetAttrString(made.ptr(), "dtype"));
        }
        return found;
    }
};

}  // inline namespace tkjit_stand_in
}  // namespace pybind11
