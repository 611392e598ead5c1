// torch::autograd::Function: a class with static forward() and backward() of tensors.
//
// torch's C ABI has no autograd, so Python's torch.autograd.Function records the call and calls back.
#pragma once

#include "ivalue.h"
#include "python.h"

namespace torch {
namespace autograd {
inline namespace tkjit_stand_in {

/// The values that forward() saves for backward(). Tensors are saved in Python's context, which owns this object.
class AutogradContext {
public:
    std::unordered_map<std::string, c10::IValue> saved_data;

    void save_for_backward(const variable_list& tensors) const { call("save_for_backward", tensors); }
    void mark_dirty(const variable_list& inputs) const { call("mark_dirty", inputs); }
    void mark_non_differentiable(const variable_list& outputs) const { call("mark_non_differentiable", outputs); }
    void set_materialize_grads(bool value) const {
        at::in_python([&] { set("materialize_grads", pybind11::cast(value)); });
    }
    variable_list get_saved_variables() const {
        return at::in_python([&] { return pybind11::cast<variable_list>(get("saved_tensors")); });
    }
    /// Whether the gradient of the i-th tensor argument is needed. ``run`` comes before the tensors, hence i + 1.
    bool needs_input_grad(size_t i) const {
        return at::in_python([&] {
            const auto wanted = get("needs_input_grad");
            return pybind11::check(PySequence_GetItem(wanted.ptr(), Py_ssize_t(i + 1))).ptr() == Py_True;
        });
    }

private:
    template <class T>
    friend struct Function;
    pybind11::object get(const char* name) const { return pybind11::check(PyObject_GetAttrString(python_, name)); }
    void set(const char* name, const pybind11::object& value) const {
        pybind11::check_status(PyObject_SetAttrString(python_, name, value.ptr()));
    }
    void call(const char* name, const variable_list& tensors) const {
        at::in_python([&] {
            const auto given = pybind11::check(PySequence_Tuple(pybind11::cast(tensors).ptr()));
            pybind11::check(PyObject_CallObject(get(name).ptr(), given.ptr()));
        });
    }

    PyObject* python_ = nullptr;  // borrowed while forward() or backward() runs
    std::vector<bool> is_tensor_;  // of each argument of forward()
};

/// The Python class whose forward() and backward() call C++.
inline PyObject* python_function_class() {
    static PyObject* const made = [] {
        const char* const text =
            "import torch\n"
            "class Function(torch.autograd.Function):\n"
            "    @staticmethod\n"
            "    def forward(ctx, run, *tensors):\n"
            "        made, ctx.run_backward = run(ctx)\n"
            "        return made\n"
            "    @staticmethod\n"
            "    def backward(ctx, *gradients):\n"
            "        return None, *ctx.run_backward(ctx, *gradients)\n";
        const auto names = pybind11::check(PyDict_New());
        const auto builtins = pybind11::check(PyImport_ImportModule("builtins"));
        PyDict_SetItemString(names.ptr(), "__builtins__", builtins.ptr());
        const auto code = pybind11::check(Py_CompileString(text, "<torch::autograd::Function>", Py_file_input));
        pybind11::check(PyEval_EvalCode(code.ptr(), names.ptr(), names.ptr()));
        return pybind11::new_reference(PyDict_GetItemString(names.ptr(), "Function"));
    }();
    return made;
}
/// Makes a Python function that takes any arguments. It lives as long as Python refers to it.
inline pybind11::object callable(std::function<pybind11::object(PyObject*)> function) {
    using Held = std::function<pybind11::object(PyObject*)>;
    static PyMethodDef definition{"run", [](PyObject* capsule, PyObject* arguments) -> PyObject* {
                                      try {
                                          return (*static_cast<Held*>(PyCapsule_GetPointer(capsule, nullptr)))(arguments).release();
                                      } catch (...) {
                                          pybind11::translate();
                                          return nullptr;
                                      }
                                  },
                                  METH_VARARGS, nullptr};
    const auto capsule = pybind11::check(PyCapsule_New(new Held(std::move(function)), nullptr, [](PyObject* owned) {
        delete static_cast<Held*>(PyCapsule_GetPointer(owned, nullptr));
    }));
    return pybind11::check(PyCFunction_New(&definition, capsule.ptr()));
}

template <class T>
struct Function {
    template <class X = T, class... A>
    static auto apply(A&&... arguments) -> decltype(X::forward(nullptr, std::forward<A>(arguments)...)) {
        using Result = decltype(X::forward(nullptr, std::forward<A>(arguments)...));
        auto context = std::make_shared<AutogradContext>();
        variable_list tensors;
        (note(arguments, tensors, context->is_tensor_), ...);
        return at::in_python([&]() -> Result {
            if (is_transformed()) throw c10::Error("cannot use C++ torch::autograd::Function with functorch");
            const auto run = callable([&](PyObject* given) {
                context->python_ = PyTuple_GetItem(given, 0);
                const Result made = X::forward(context.get(), std::forward<A>(arguments)...);
                const auto backward = callable([context](PyObject* called) { return run_backward(*context, called); });
                return pybind11::cast(std::make_tuple(as_tuple(made), backward));
            });
            const auto all = pybind11::check(PyTuple_New(Py_ssize_t(tensors.size()) + 1));
            PyTuple_SetItem(all.ptr(), 0, pybind11::new_reference(run.ptr()));
            for (size_t i = 0; i < tensors.size(); ++i) PyTuple_SetItem(all.ptr(), Py_ssize_t(i + 1), pybind11::cast(tensors[i]).release());
            const auto apply = pybind11::check(PyObject_GetAttrString(python_function_class(), "apply"));
            const auto made = pybind11::check(PyObject_CallObject(apply.ptr(), all.ptr()));
            if constexpr (std::is_same<Result, at::Tensor>::value) return pybind11::cast<at::Tensor>(made);
            else return pybind11::cast<variable_list>(made);
        });
    }

private:
    /// Whether a torch.func transform is active.
    static bool is_transformed() {
        const auto module = pybind11::check(PyImport_ImportModule("torch._C"));
        return pybind11::handle(module).attr("_are_functorch_transforms_active")().template cast<bool>();
    }
    template <class A>
    static void note(const A& argument, variable_list& tensors, std::vector<bool>& is_tensor) {
        if constexpr (std::is_base_of<at::TensorBase, A>::value) {
            tensors.push_back(argument);
            is_tensor.push_back(true);
        } else if constexpr (std::is_same<A, std::optional<at::Tensor>>::value) {
            tensors.push_back(argument.value_or(at::Tensor()));
            is_tensor.push_back(true);
        } else if constexpr (std::is_convertible<A, at::TensorList>::value && !std::is_same<A, std::nullopt_t>::value) {
            for (const at::Tensor& tensor : at::TensorList(argument)) note(tensor, tensors, is_tensor);
        } else {
            is_tensor.push_back(false);
        }
    }
    static pybind11::object as_tuple(const at::Tensor& made) { return pybind11::cast(made); }
    static pybind11::object as_tuple(const variable_list& made) { return pybind11::check(PySequence_Tuple(pybind11::cast(made).ptr())); }

    /// Calls backward(), and returns the gradients of the tensor arguments.
    static pybind11::object run_backward(AutogradContext& context, PyObject* called) {
        variable_list gradients;
        for (Py_ssize_t i = 1; i < PyTuple_Size(called); ++i) {
            gradients.push_back(at::FromPython<at::Tensor>::read(PyTuple_GetItem(called, i)));
        }
        context.python_ = PyTuple_GetItem(called, 0);
        const variable_list made = T::backward(&context, gradients);
        const auto& is_tensor = context.is_tensor_;
        TORCH_CHECK(made.size() >= is_tensor.size(), "the function returned an incorrect number of gradients (expected ", is_tensor.size(),
                    ", got ", made.size(), ")");
        variable_list wanted;
        for (size_t i = 0; i < is_tensor.size(); ++i)
            if (is_tensor[i]) wanted.push_back(made[i]);
        return as_tuple(wanted);
    }
};

}  // inline namespace tkjit_stand_in
}  // namespace autograd
}  // namespace torch
